// Texts about people: signing in, invitations, passwords. They are loaded with the pages that show them.

export const people = {
  signIn: {
    email: "E-mail", password: "Password", other: "Another way", or: "or",
    forgot: "I have forgotten the password",
    forgotMail: "Type your e-mail address. If it is known here, a link to choose a new password is sent to it.",
    forgotAdmin: "Ask an admin of your organization for a link to choose a new password (page Members). Admins who are locked out run this on the machine of the server:",
    send: "Send the link", sent: "If the address is known here, a link is on its way to it. It works for an hour.",
    invited: "You are invited. Open the whole link of the invitation to choose a password, or sign in with the address to which it was made.",
  },
  factor: {
    code: "Code", codeHelp: "The six digits that the authenticator app shows now, or a recovery code.", check: "Sign in",
    lost: "Without the app, a recovery code signs you in. Without both, ask an admin of your organization to remove the second factor (page Members).",
    setup: "An authenticator app is required here. Add this account to an app on your phone, and type the code that it shows.",
    add: "Add this account to an app on your phone, such as one that shows six digits every 30 seconds, and type the code that it shows.", key: "Key for the app", openApp: "Open it in an app on this device",
    codesTitle: "Keep these recovery codes", codesWill: "Each signs you in once if you lose the app or the passkey. They are shown only now.", kept: "I have kept them",
  },
  passkey: {
    title: "Passkeys", about: "A passkey signs you in with your fingerprint, your face or a PIN, on a phone, a computer or a security key. It works only at this address, so that no other page can ask for it. With one, the password alone does not sign you in any more.",
    signIn: "Sign in with a passkey", use: "Use a passkey", alone: "Without the passkey, type a code of the app or a recovery code. Without those, ask an admin of your organization to remove the second factor (page Members).", add: "Add a passkey", addWill: "Your browser asks where to keep it: on this device, on a phone or on a security key.", next: "Next", name: "Name", nameHelp: "Where it is, such as “Phone” or “Security key”.", save: "Save", added: "The passkey is added. All your other sessions have ended.",
    none: "You have none.", used: "Last used", never: "not used yet", rename: "Rename", renamed: "The passkey has another name.", remove: "Remove", removeTitle: (name) => `Remove ${name}`, removeWill: "It does not sign you in any more. Remove it from your device, too. Without any passkey and without an authenticator app, the password alone signs you in.", removed: "The passkey is removed.",
    elsewhere: (origin) => `Open the console at ${origin} to add one: browsers bind passkeys to an address.`,
    failures: { NotAllowedError: "Try again: no passkey was used, because the window of the browser was closed, or it took too long.", InvalidStateError: "Choose another device: this one has a passkey for you already.", SecurityError: "Open the console at the address of this server: a passkey works only there.", other: "Try again, or sign in another way: the browser could not use a passkey." },
  },
  link: {
    invitation: (organization) => `Join ${organization}`, reset: "Choose a new password",
    role: (email, role) => `As ${email}, with the role ${role}.`, whom: (email) => `For ${email}.`,
    replaces: (name) => `You are signed in as ${name} now. With this, the browser is signed in as the person of the link.`,
    name: "Your name", password: "Password", help: "10 characters or more. A few words make a good one.",
    present: "You have a password here already. Type it, and the organization is added to your account.",
    signInNow: "Your password is set. Sign in with it: a second factor is added then.", join: "Join", save: "Save and sign in", signsOut: "You are signed out everywhere else.", removeOthers: "Remove all my other passkeys: somebody else may have had my password", toSignIn: "To the page of signing in",
  },
  account: {
    name: "Name", email: "E-mail", change: "Change", nameTitle: "Change your name", nameChanged: "Your name is changed.",
    password: "Password", passwordAge: "Password chosen", passwordTitle: "Change your password", present: "Present password", fresh: "New password", passwordWill: "All your other sessions end.", passwordChanged: "Your password is changed. All other sessions have ended.",
    factor: "Authenticator app", factorOn: "added", codesLeft: "Recovery codes", left: (left) => `${left} left`, factorOff: "none", factorAddShort: "Add an app", factorAdd: "Add an authenticator app", factorRemove: "Remove", factorRemoveTitle: "Remove the authenticator app", factorRemoveWill: "From then on, the password alone signs you in, unless you have a passkey.", factorAdded: "The authenticator app is needed to sign in from now on. All other sessions have ended.", factorRemoved: "The authenticator app is removed.", next: "Next", confirm: "Confirm",
    endAll: "End all others", endAllWill: "All other browsers in which you are signed in are signed out at once.", endedAll: "All other sessions have ended.",
    tokens: "Your API tokens", tokensAbout: "Tokens that you made. They go on working after your password changes.", noTokens: "You have made none.", organization: "Organization", scopes: "Scopes", used: "Last used",
  },
  providers: {
    title: "Sign-in providers", about: "With these, people sign in with the account that they have. Create a client at the provider, enter the callback address there, and give the client id and secret to this server, as the setting `oidc_providers`. Only the operator can do that, because a provider says who everybody is, in all organizations.",
    provider: "Provider", callback: "Callback address", state: "State", isOn: "on the sign-in page", lines: (name) => `[[oidc_providers]]\nkind = "${name}"\nclient_id = "…"\nclient_secret = "…"`, settings: (title) => `Settings for ${title}`, how: "Settings", saved: "Add these lines to the settings file of the server (windlass.toml), and restart it.",
  },
  members: {
    cannot: "Nobody whom you invite can sign in yet: this server has no sign-in provider, and takes no passwords at its address. Serve it over https (`public_url`), or set `passwords` or `oidc_providers`, and invite then.",
    linkOnce: "Send this link. It works once, within seven days, and is shown only now.", linkPlain: "Send this link. The person signs in with this address at a provider.",
    help: (email) => `Help ${email} to sign in`, newLink: "New link", newLinkTitle: (email) => `A link for ${email}`, resetButton: "New password",
    resetTitle: (email) => `A new password for ${email}`, resetWill: "You get a link with which the person chooses a new password, and then is signed out everywhere else. Who has the link can sign in as this person: hand it over in person, or in a message that nobody else reads.",
    factorButton: "Remove second factor", factorTitle: (email) => `Remove the second factor of ${email}`, factorWill: "For somebody who has lost the authenticator app or the passkeys, and the recovery codes. From then on, the password alone signs this person in: make sure that it is this person who asks.", factorRemoved: (email) => `The second factor of ${email} is removed.`,
    resetMake: "Make the link", resetLink: "It works once, within an hour, and is shown only now.",
  },
};
