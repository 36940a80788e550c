// Texts of the forms of an organization: tokens, webhooks, registries, clusters. They are loaded with the forms.

export const organizationForms = {
  webhookForm: {
    to: "Where to", address: "Your own address", url: "Address", eventsTitle: "Events", events: { DEPLOYMENT_STARTED: "A deployment begins", DEPLOYMENT_SUCCEEDED: "It succeeds", DEPLOYMENT_FAILED: "It fails", DEPLOYMENT_CANCELLED: "It is cancelled" },
    on: "on", off: "off", failing: "failing", firstFailure: "the first time", whenIt: "When a deployment", disabled: "Turned off by Windlass", onlyFor: "Only for", isSigned: "signed", unsigned: "none: deliveries are not signed", short: { DEPLOYMENT_STARTED: "begins", DEPLOYMENT_SUCCEEDED: "succeeds", DEPLOYMENT_FAILED: "fails", DEPLOYMENT_CANCELLED: "is cancelled" },
    descriptionExample: "Tells the team channel", secret: "Signing secret", secretHelp: "Each delivery is signed with it, so that the receiver knows where it comes from.", secretKept: "set; leave it empty to keep it", generate: "Generate one", only: "Only for certain environments",
    modes: "Kinds of environments", projects: "Projects", enabled: "Deliver events", tested: "An example was sent", waiting: "Waiting for the answer …", noAnswer: "There is no answer yet. The list of deliveries will show it.", answered: (status) => `answered ${status}`, again: "It is tried again, with growing pauses.",
  },
  tokenForm: {
    nameExample: "deployments from CI", scopes: "What it may do", order: ["Read", "Deploy", "Write", "Admin"], expires: "How long it is valid", days: (count) => `${count} days`, year: "1 year", never: "No end", where: "Where", everywhere: "Everything", parts: "Only chosen parts", noScope: "Choose at least one.", noPart: "Choose at least one part.", nothing: "There is no project yet.",
    isFixed: "What it may do, where and how long cannot be changed. For something else, make a new token, and delete this one.", partsOf: (count) => (count === 1 ? "1 part" : `${count} parts`), ends: "Ends", used: "Last used", unused: "not yet", by: "Made by", limit: "Requests", perHour: (count) => `${count} an hour`,
  },
  restrictionForm: {
    mode: "Which commits are deployed", modes: { EXCLUDE: "All, except those that change only this path", MATCH: "Only those that change this path" }, path: "Path", pathHelp: "A file or a folder of the repository, from its root, such as docs or **/*.md.",
  },
  gitTokenForm: {
    kind: "Git host", token: "Token", tokenHelp: "It is stored encrypted, and never shown again.", tryOn: "Try it on a private repository", tryHelp: "Optional: the token is kept only if it can read this repository.", ownServer: "On a server of your own", api: "Address of its API", open: "Open this page",
    appId: "App ID", installation: "Installation", installationHelp: "The number at the end of the address of the installation's page.", privateKey: "Private key",
    server: "Server", used: "Services", keptSecret: "set; leave it empty to keep it",
    workspace: "Workspace", workspaceHelp: "The name in the address of its repositories: bitbucket.org/acme.", serverMissing: "Write the address of your server, such as https://git.example.com/api/v1.", refused: (why) => `The token is not kept. ${why}`,
    steps: {
      GITHUB: ["and choose the repositories.", "Set `Contents` to read-only. For push webhooks, add `Webhooks`; for previews, `Pull requests` and `Commit statuses`, each to read and write.", "Generate the token, and paste it here."],
      GITHUB_APP: ["and register an app, without a webhook.", "Set `Contents` to read-only. For push webhooks, add `Webhooks`; for previews, `Pull requests` and `Commit statuses`, each to read and write.", "Install the app on the repositories, generate a private key, and paste it here."],
      GITLAB: ["and add a new token.", "Choose `read_api` and `read_repository`; `api` also sets up push webhooks and previews.", "Create it, and paste it here."],
      GITEA: ["On your server, open “Settings”, then “Applications”.", "Generate a token with `read:repository` and `read:user`; `write:repository` and `write:issue` also set up push webhooks and previews."],
      BITBUCKET: ["In the repository, open “Repository settings”, then “Access tokens”.", "Create one with “Repositories: Read”; add “Webhooks” for push webhooks, and “Pull requests: Write” for previews."],
    },
  },
  registryForm: {
    kept: "A password or key that is left empty stays as it is stored.", check: "Login", address: "Address", used: "Services", user: "User name", left: "Pulls left", ofLimit: (left, all) => `${left} of ${all}`, checked: "Checked",
    kind: "Provider", kinds: { DOCKER_HUB: "Docker Hub", GITHUB_CR: "GitHub", GITHUB_ENTERPRISE_CR: "GitHub Enterprise", GITLAB_CR: "GitLab", ECR: "AWS ECR", PUBLIC_ECR: "AWS public", GCP_ARTIFACT_REGISTRY: "Google Cloud", AZURE_CR: "Azure", DOCR: "DigitalOcean", SCALEWAY_CR: "Scaleway", GENERIC_CR: "Other" },
    steps: {
      DOCKER_HUB: ["At Docker Hub, open “Account settings”, then “Personal access tokens”.", "Generate one with the permission `Read-only`. Its user name is that of your account."],
      GITHUB_CR: ["At GitHub, open “Settings”, “Developer settings”, “Personal access tokens (classic)”.", "Generate one with the scope `read:packages`. Its user name is that of your account."],
      GITLAB_CR: ["In the project or group, open “Settings”, “Repository”, “Deploy tokens”.", "Create one with the scope `read_registry`."],
      ECR: ["In IAM, make a user with the policy `AmazonEC2ContainerRegistryReadOnly`.", "Create an access key for it."],
      GCP_ARTIFACT_REGISTRY: ["Make a service account with the role `Artifact Registry Reader`.", "Add a key to it, of type JSON, and paste the file."],
      AZURE_CR: ["In the registry, open “Tokens”, and add one with the scope map `_repositories_pull`.", "Generate a password for it."],
      DOCR: ["In the control panel, open “API”, and generate a token with the scope `registry:read`.", "The token is both the user name and the password."],
      SCALEWAY_CR: ["In the console, open “IAM”, “API keys”, and generate one.", "Its secret key is what is asked for here."],
    },
  },
  clusterForm: {
    kind: "Kind of machine", docker: "Docker", dockerAbout: "another machine, over TLS", local: "A server", localAbout: "one that runs Windlass", silent: "Its engine does not answer", noReason: "There is no reason yet.", back: "Correct it", keep: "Keep it all the same",
    steps: { DOCKER: ["On the other machine, let Docker listen on a port with TLS: its manual calls this “Protect the Docker daemon socket”.", "It needs `ca.pem`, `cert.pem` and `key.pem`. Paste them here; the address has the form `tcp://10.0.0.5:2376`."], LOCAL: ["Services run on the machine of a Windlass server. The server is named as in its setting `place`; without a name, it is this one."] },
    descriptionExample: "The machine under the desk", keyKept: "set; leave it empty to keep it", names: { place: "Server", engine_address: "Address of the engine", engine_ca_certificate: "CA certificate (ca.pem)", engine_certificate: "Client certificate (cert.pem)", engine_key: "Key (key.pem)", engine_id: "Id of the engine", router_port: "Port for visitors" },
    helps: { place: "Empty: this server.", engine_address: "With the host in numbers: containers publish their ports there.", engine_key: "It is stored encrypted, and never shown again.", engine_id: "As `docker info` shows it. Empty: the engine that answers now.", router_port: "Of this server. Empty: the one of the gateway." },
  },
};
