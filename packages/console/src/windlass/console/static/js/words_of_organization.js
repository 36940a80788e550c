// Texts of the pages of an organization. They are loaded with them.

export const organizationTexts = {
  about: "Who may do what, what is connected, and where services run.", general: "Name and description",
  groups: { access: "People and access", connections: "Connections", machines: "Machines", others: "For other clients" },
  abouts: {
    member: "Who works here, with which role, and how they sign in.", apiToken: "Access for programs, such as CI and the command line.", audit: "Who did what, when, and from where.",
    gitToken: "Logins for private repositories, push webhooks and previews.", containerRegistry: "Logins for images.", webhook: "Tell Slack or a program of yours when something is deployed, or fails.", cluster: "The machines on which services run, with what is free.",
    labelsGroups: "Labels that several services share.", annotationsGroups: "Annotations that several services share.",
  },
  count: (some) => (some ? String(some) : "none"),
  cluster: {
    state: "State", kind: "Kind", images: "Container images", runsImages: "run here", noImages: "need a cluster with Docker", isDefault: "Default", here: "for new environments", byDefault: "new environments are made here, unless they name another cluster", machine: "Machine", noMachine: "Nothing is known of the machine. ",
    environments: "Environments here", noEnvironments: "None yet. Name this cluster where you create an environment.", version: "Windlass", system: "System", cores: "Processor", load: (cores, load) => `${cores} ${cores === 1 ? "core" : "cores"}, load ${load}`, memory: "Memory", disk: "Disk", reserve: (amount) => `Nothing is built with less than ${amount} free.`,
    docker: (address) => `Docker at ${address}`, local: (place) => (place && place !== "local" ? `the Windlass server ${place}` : "the machine of this server"), none: "a record without an engine: nothing is deployed here",
    lock: "Lock the cluster", unlock: "Remove the lock", lockAbout: "While it is locked, deployments and restarts are refused with your reason. Running services keep running.", lockReason: "Reason", lockReasonExample: "The disk is being replaced", lockDays: "Days", lockDaysHelp: "After this time, the lock ends by itself. Empty: it stays until it is removed.",
    locked: (owner, end) => `${owner} has locked this cluster${end ? ` until ${end}` : ""}: deployments and restarts are refused, and running services keep running.`,
  },
  members: { role: "Role", roleOf: (name) => `Role of ${name}`, roles: "What the roles may do", you: "you", seen: "Last seen", never: "not yet", remove: "Remove", expired: "expired", invitedBy: "Invited by", providers: (names) => (names.length ? `Sign-in providers: ${names.join(", ")}` : "Sign-in providers: none yet") },
};
