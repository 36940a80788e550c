// Texts of previews, running hours and new environments. They are loaded with their pages.

export const previews = {
  title: "Previews", about: (name) => `Copies of ${name}, each for a pull request, at an address of its own.`, create: "New preview", none: "No preview yet. A preview is a copy of this environment for a pull request, with databases of its own, so that a change is tried before it is merged.", withCommand: "Or with the command line:",
  steps: [["Choose which", "Every pull request, or only those with the label “preview”."], ["Push", "The preview is built at each commit, and the pull request gets a comment with the address."], ["Merge", "The preview and its databases are deleted when the pull request is closed."]],
  which: "Which pull requests get a preview",
  rules: {
    none: { title: "None", about: "only those made here by hand", saved: "Pull requests get no previews by themselves any more. Those that exist stay." },
    label: { title: "With the label “preview”", about: "set at the git server", saved: "Pull requests with the label “preview” get a preview." },
    all: { title: "Every one", about: "into a branch of a service here", saved: "Every pull request gets a preview." },
  },
  rightsHelp: "The git token of the services must be allowed to read pull requests, and to write comments and commit statuses. Code of forks waits for an approval and gets no secrets.",
  states: { PLANNED: "being made", WAITING_FOR_APPROVAL: "waits for your approval", WAITING_FOR_ROOM: "waits for room", DEPLOYING: "deploying", RUNNING: "running", FAILED: "failed", STOPPED: "stopped", ENDED: "deleted" },
  abouts: {
    WAITING_FOR_APPROVAL: "The commit is from a fork. Look at it, then approve it: only this commit is built, without secrets.", WAITING_FOR_ROOM: "The project has as many previews as it may have. This one is made when another one is gone.",
    STOPPED: "Nothing new came for a while. The next commit starts it again.", FAILED: "Open its environment to see which service failed, and why.",
  },
  by: (name) => `by ${name}`, fork: "fork", open: "Open the environment", actionsOf: (name) => `Actions of ${name}`, deployed: "Deployed:", newest: "Newest:", ends: "Deleted", missing: (count) => (count === 1 ? "without 1 secret" : `without ${count} secrets`), events: "What happened", ended: (count) => `Deleted: ${count}`,
  createWill: "The environment is copied and deployed now, with new addresses and empty databases.", of: "Of what", ofPull: "A pull request", ofBranch: "A branch", ofImage: "A tag of an image", number: "Number", numberHelp: "Of an open pull request at the git server of the services.", branch: "Branch", branchHelp: "The preview follows its newest commit.", image: "Image", imageHelp: "Of containers of the environment. They run this tag in the preview.", tag: "Tag", asked: "The preview is being made.",
  approve: (commit) => `Approve ${commit}`, approveTitle: (commit, author) => `Build ${commit} of ${author || "a fork"}`, approveWill: "The code of this commit is built and run here. Approve it only if you have looked at it. A later commit waits again.", approveSecrets: (names) => `It gets no secrets: ${names}.`, approveNoSecrets: "It gets no secrets.", approved: "Approved. The preview is being made.",
  removeWill: "Its services, databases and volumes are deleted. Its pull request gets no other preview by itself.",
};

export const stages = {
  title: "Deployment stages", about: "The environment is deployed from the first stage to the last. Services of one stage are deployed side by side; if one fails, later stages do not begin.", create: "New stage", edit: "Change name and description", description: "Description", empty: "No service", created: "The stage is the last one.", saved: "The stage is changed.",
  earlier: "Earlier", later: "Later", earlierOf: (name) => `Deploy ${name} earlier`, laterOf: (name) => `Deploy ${name} later`, dragStage: "Drag to change the order", dragService: "Drag to another stage", undo: "Undo", undone: "It is as before.", isFirst: (name) => `${name} is the first stage.`, isLast: (name) => `${name} is the last stage.`, moved: (name, order) => `${name} is stage ${order} now.`,
  actionsOf: (name) => `Actions of ${name}`, moveTo: (name) => `Move to ${name}`, placed: (name, stage) => `${name} is in ${stage} now.`, skipped: "skipped", skip: "Leave out of deployments of all", include: "Include in deployments of all", leftOut: (name) => `Deployments of the whole environment leave ${name} out.`, included: (name) => `Deployments of the whole environment include ${name}.`,
  removeWill: "Only a stage without services can be deleted.",
};

export const deployments = {
  about: "What one request has deployed, stopped or removed is one deployment. The newest is first.", none: "Nothing was deployed here yet. Go back, and choose “Deploy all”.", gone: "This deployment is not kept: its services were deleted.",
  action: "Action", stages: "Stages", by: "By", asked: "Requested", took: "Took", of: (action, name) => `${action} of ${name}`,
  services: (names) => (names.length > 3 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", ")),
  cancelWill: "All that is left of this deployment ends: services that wait are not deployed, and those under way stop where they are. The versions that serve stay. Other deployments go on.",
  statuses: { QUEUED: "waiting", ONGOING: "under way", CANCELING: "being cancelled", DONE: "done", SUCCESS: "succeeded", ERROR: "failed", SKIPPED: "did not begin", NEVER: "did not begin", CANCELED: "cancelled" },
  actions: { DEPLOY: "Deployment", RESTART: "Restart", STOP: "Stop", UNINSTALL: "Removal", DELETE: "Deletion", DEPLOY_DRY_RUN: "Plan" },
};

export const environmentTexts = {
  nameExample: "staging", mode: "What it is for", modeHelp: "Webhooks and lists can be limited to one kind.", modes: { PRODUCTION: "what visitors use", STAGING: "the last test before", DEVELOPMENT: "work in progress" },
};

export const runningHours = {
  title: "Running hours", about: "An environment that nobody needs at night costs memory and processor time for nothing. Its data stays, and you can start it by hand at any time.",
  on: "Start and stop by the clock", onHelp: "Services that you stop by hand are not started.", days: "Days", start: "Start at", stop: "Stop at", stopHelp: "A time that is not after the start belongs to the next day.", zone: "Time zone",
  dayNames: { MONDAY: "Mon", TUESDAY: "Tue", WEDNESDAY: "Wed", THURSDAY: "Thu", FRIDAY: "Fri", SATURDAY: "Sat", SUNDAY: "Sun" },
  saved: (start, stop, zone) => `It is started at ${start} and stopped at ${stop}, ${zone}. Nothing changes before the next of these times.`, savedOff: "It runs at all hours. What is stopped now stays stopped until you deploy it.",
};
