// A real OpenID Connect provider, for tests: node server.mjs PORT (0 is any free one). It says where it listens.
// Its clients get JWT access tokens for the resources urn:test:rs256 and urn:test:es256, each signed so: `robot`, and
// `ada`, in whose tokens there is an address that is verified.
// With a second argument, an address to come back to, people sign in at the client `console` by the pages of the provider:
// any name is taken, and has a verified address at example.com.
// On SIGHUP all keys are exchanged for new ones.

import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { Provider } from 'oidc-provider';

const server = createServer((request, response) => answer(request, response));
const addresses = { ada: { email: 'ada@example.com', email_verified: true } };
const comeBack = process.argv[3];
const console_ = {
  client_id: 'console',
  client_secret: 'secret',
  redirect_uris: [comeBack],
  grant_types: ['authorization_code'],
  response_types: ['code'],
};
let answer;

server.listen(Number(process.argv[2]), '127.0.0.1', () => {
  startOver();
  say(`listening on ${issuer()}`);
});
process.on('SIGHUP', () => {
  startOver();
  say('has new keys');
});

function issuer() {
  return `http://127.0.0.1:${server.address().port}`;
}

function startOver() {
  answer = new Provider(issuer(), {
    jwks: { keys: [key('RS256', 'rsa', { modulusLength: 2048 }), key('ES256', 'ec', { namedCurve: 'P-256' })] },
    clients: [...['robot', 'ada'].map(client), ...(comeBack ? [console_] : [])],
    findAccount: (context, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: true }) }),
    claims: { openid: ['sub'], email: ['email', 'email_verified'] },
    conformIdTokenClaims: false,
    extraTokenClaims: (context, token) => addresses[token.clientId],
    features: {
      devInteractions: { enabled: Boolean(comeBack) },
      clientCredentials: { enabled: true },
      resourceIndicators: { enabled: true, getResourceServerInfo: resource },
    },
  }).callback();
}

function client(name) {
  return {
    client_id: name,
    client_secret: 'secret',
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
  };
}

function resource(context, name) {
  const alg = name.split(':').at(-1).toUpperCase();
  return { audience: name, scope: 'deploy', accessTokenFormat: 'jwt', accessTokenTTL: 60, jwt: { sign: { alg } } };
}

function key(alg, kind, options) {
  const { privateKey } = generateKeyPairSync(kind, options);
  return { ...privateKey.export({ format: 'jwk' }), alg, use: 'sig' };
}

function say(words) {
  process.stdout.write(`${words}\n`);
}
