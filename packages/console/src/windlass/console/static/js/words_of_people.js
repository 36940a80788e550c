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
  link: {
    invitation: (organization) => `Join ${organization}`, reset: "Choose a new password",
    role: (email, role) => `As ${email}, with the role ${role}.`, whom: (email) => `For ${email}.`,
    replaces: (name) => `You are signed in as ${name} now. With this, the browser is signed in as the person of the link.`,
    name: "Your name", password: "Password", help: "10 characters or more. A few words make a good one.",
    present: "You have a password here already. Type it, and the organization is added to your account.",
    join: "Join", save: "Save and sign in", signsOut: "You are signed out everywhere else.", toSignIn: "To the page of signing in",
  },
  account: {
    name: "Name", email: "E-mail", change: "Change", nameTitle: "Change your name", nameChanged: "Your name is changed.",
    password: "Password", passwordAge: "Password chosen", passwordTitle: "Change your password", present: "Present password", fresh: "New password", passwordWill: "All your other sessions end.", passwordChanged: "Your password is changed. All other sessions have ended.",
    endAll: "End all others", endAllWill: "All other browsers in which you are signed in are signed out at once.", endedAll: "All other sessions have ended.",
    tokens: "Your API tokens", tokensAbout: "Tokens that you made. They go on working after your password changes.", noTokens: "You have made none.", organization: "Organization", scopes: "Scopes", used: "Last used",
  },
  members: {
    cannot: "Nobody whom you invite can sign in yet: this server has no sign-in provider, and takes no passwords at its address. Serve it over https (`public_url`), or set `passwords` or `oidc_providers`, and invite then.",
    linkOnce: "Send this link. It works once, within seven days, and is shown only now.", linkPlain: "Send this link. The person signs in with this address at a provider.",
    newLink: "New link", newLinkTitle: (email) => `A link for ${email}`, resetButton: "New password",
    resetTitle: (email) => `A new password for ${email}`, resetWill: "You get a link with which the person chooses a new password, and then is signed out everywhere else. Who has the link can sign in as this person: hand it over in person, or in a message that nobody else reads.",
    resetMake: "Make the link", resetLink: "It works once, within an hour, and is shown only now.",
  },
};
