// Texts of Terraform modules: their inputs, their program and their state. They are loaded with the forms.

export const modules = {
  source: {
    title: "Module", about: "The folder of a repository with the files *.tf.", look: "Read the module", lookAgain: "Read it again", asksNothing: "This folder declares no input variables. If the module is in another folder, name that one.",
    commits: "New commits of the branch", onCommit: { NOTHING: "Do nothing", PLAN: "Plan", DEFAULT: "Plan and apply" },
    commitAbouts: { NOTHING: "You decide when the module runs.", PLAN: "Each new commit is planned; you read the plan, and apply it.", DEFAULT: "Each new commit is planned, and what the plan says is done at once. That can destroy resources." },
  },
  inputs: {
    title: "Input variables", about: "Read the module to see which it has, or add them by name.", none: "No values yet.", key: "Name", value: "Value", secret: "Secret", add: "Add by name", required: "required",
    kept: "set; leave it empty to keep it", valueHelp: "A text, or an expression such as [\"a\", \"b\"] or true for other types.", withDefaults: (count) => (count === 1 ? "1 with a default" : `${count} with defaults`),
    files: "Files with values", filesHelp: "Paths of .tfvars files below the folder of the module, one on each line. Values above win over those of files.", useFiles: "Values above win over those of files.", sets: (names) => `sets ${names}`, undeclared: "The module does not declare it.",
  },
  program: {
    title: "Program", engines: { TERRAFORM: "Terraform", OPEN_TOFU: "OpenTofu" }, here: (versions) => `${versions} here`, absent: "not installed here", version: "Version", versionHelp: "Empty: the newest that required_version of the module permits.", versionExample: "as the module says",
    limit: "A run ends after", limitHelp: "Empty: as long as the server permits.", minutes: "minutes", size: "Size of a run", options: "Options of the program", optionsHelp: "One on each line, such as -parallelism=2.", optionsOf: (command) => `For ${command}`,
  },
  state: {
    title: "State", kinds: { kubernetes: "Windlass", user_provided: "The module’s backend" }, abouts: { kubernetes: "encrypted, with a lock and all versions", user_provided: "the one in its backend block" },
    moved: "To keep what the state has so far, save this, then choose “Move the state” on the page Plan.",
  },
  resources: { empty: "The state has no resources yet. Apply a plan: what it makes is listed here.", toPlan: "Open the plan", search: "Search by address", address: "Resource", isData: "only read", provider: "Provider", asOf: "Read", asJson: "All attributes as JSON" },
  create: "Create and plan", createAndApply: "Create and apply", createHelp: "A plan shows what would be made, and changes nothing. You apply it on its page.", urlMissing: "Paste the address of the repository.",
  isMade: "its run is under way",
  move: "Move the state", moveWill: "The state is copied from its former backend to the one in the settings. Resources are not changed.",
};
