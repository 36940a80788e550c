// Passkeys: the browser asks an authenticator, and the answer gets the form of the API.

import { people } from "./words_of_people.js";

const { failures } = people.passkey;
const toBytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
const toText = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const withBytes = (list) => (list || []).map((known) => ({ ...known, id: toBytes(known.id) }));

/** Whether passkeys of this server work on this page: browsers bind them to its address. */
export const canUsePasskeys = ({ passkey_origin }) => passkey_origin === location.origin && Boolean(window.PublicKeyCredential);

async function ask(kind, publicKey) {
  try {
    return await navigator.credentials[kind]({ publicKey });
  } catch (error) {
    throw Object.assign(new Error(failures[error.name] || failures.other), { status: 400 });
  }
}

/** Makes a passkey, and resolves with what the server needs to add it. */
export async function createPasskey({ challenge, options }) {
  const made = await ask("create", { ...options, challenge: toBytes(options.challenge), user: { ...options.user, id: toBytes(options.user.id) }, excludeCredentials: withBytes(options.excludeCredentials) });
  return { challenge, credential: toText(made.rawId), client_data: toText(made.response.clientDataJSON), attestation: toText(made.response.attestationObject) };
}

/** Has a passkey sign the challenge, and resolves with what the server needs to sign in. */
export async function usePasskey({ challenge, options }) {
  const { rawId, response } = await ask("get", { ...options, challenge: toBytes(options.challenge), allowCredentials: withBytes(options.allowCredentials) });
  return { challenge, credential: toText(rawId), client_data: toText(response.clientDataJSON), authenticator_data: toText(response.authenticatorData), signature: toText(response.signature) };
}
