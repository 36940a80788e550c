// All texts of the console, in English. Another language is another file with the same names.

let numbers;
const grouped = (count) => (count < 1000 ? count : (numbers ||= new Intl.NumberFormat()).format(count)); // to make one costs milliseconds
const plural = (count, one, many = `${one}s`) => `${grouped(count)} ${count === 1 ? one : many}`;

const products = { POSTGRESQL: "PostgreSQL", MYSQL: "MySQL", MONGODB: "MongoDB", REDIS: "Redis" };

const states = {
  RUNNING: "running", DEPLOYED: "running", RESTARTED: "running", DEGRADED: "degraded", UNREACHED: "running, without an address", ERROR: "failed", FAILED: "failed", SUCCEEDED: "succeeded",
  STOPPED: "stopped", SLEEPING: "sleeping", READY: "never deployed", QUEUED: "queued", BUILDING: "building", DEPLOYING: "deploying", STOPPING: "stopping",
  RESTARTING: "restarting", DELETING: "deleting", CANCELED: "cancelled", CANCELING: "cancelling", SUPERSEDED: "replaced by a newer one",
  DEPLOYMENT_QUEUED: "queued", STOP_QUEUED: "stop queued", RESTART_QUEUED: "restart queued", DELETE_QUEUED: "delete queued",
  DEPLOYMENT_ERROR: "failed", BUILD_ERROR: "build failed", STOP_ERROR: "stop failed", RESTART_ERROR: "restart failed", DELETE_ERROR: "delete failed",
  COMPLETED: "completed", OK: "OK", UNAVAILABLE: "unavailable", EXECUTING: "running once", SKIPPED: "skipped",
};

// Where a service of a kind does not do what others do: its states, its actions, and what is said before them.
const kinds = {
  JOB: {
    states: { RUNNING: "active" }, done: { RUN: "Deploy" }, metricsEmpty: "No run was measured in the last hour. Runs of less than some seconds are not.",
    deploy: "The newest version is built, and the next runs are of it. A job that runs on start runs now.", stop: "A run under way ends, and none begins until the next deployment. A job that runs on stop runs now.",
  },
  TERRAFORM: {
    states: { RUNNING: "applied" }, planned: "planned, not applied", done: { RUN: "Apply" }, metricsEmpty: "No run was measured in the last hour. Runs of less than some seconds are not.",
    deploy: "The module is planned, and what the plan says is done at once: it adds, changes and destroys resources. To read a plan first, make it on the page Plan.",
    stop: "A run under way ends. The resources, their state and the outputs stay as they are.", rollback: "The module of the chosen version is planned, and what the plan says is done at once: it adds, changes and destroys resources.",
    uninstall: "All resources in the state of the module are destroyed. The service and its settings stay; the next deployment makes the resources anew.",
    remove: "Its resources are destroyed first. Then the service, its state, deployments and logs are deleted. This cannot be undone.",
  },
};
const purposes = { ROLLBACK: "Roll back", REDEPLOY: "Deploy again" };
const steps = { TERRAFORM_PLAN_AND_APPLY: "Apply", TERRAFORM_PLAN_ONLY: "Plan", TERRAFORM_DESTROY: "Destroy", TERRAFORM_FORCE_UNLOCK: "Release the lock", TERRAFORM_MIGRATE_STATE: "Move the state" };

// Fields whose names say less than these words do.
const fields = {
  scheduled_at: "Timetable (cron)", docker: "Git repository", timezone: "Time zone", max_nb_restart: "Retries", max_duration_seconds: "Longest run in seconds", timeout_sec: "Longest run in seconds", missed_runs: "Missed runs",
  terraform_files_source: "Module", terraform_variables_source: "Input variables", tf_var_file_paths: "Files with values", tf_vars: "Values", auto_deploy_config: "Automatic deployment",
  min_running_instances: "Minimum instances", max_running_instances: "Maximum instances", ephemeral_storage_in_gib: "Temporary storage in GiB", registry_id: "Registry", config: "Login", matched_event: "Event", target_response_status_code: "Answer", target_response_body: "What it said",
};

export const words = {
  states, fields, kinds,
  doneBy: ({ action, purpose, command, status_details: details }, type) => steps[details?.sub_action] || purposes[purpose] || (!command && kinds[type]?.done[action]) || words.readable(action),
  deploymentName: ({ number, command }) => (command ? `run ${number}` : `v${number}`),
  readable: (word) => states[word] || products[word] || String(word || "").replace(/_/g, " ").toLowerCase().replace(/^./, (letter) => letter.toUpperCase()),
  levels: { ENVIRONMENT: "environment", PROJECT: "project", BUILT_IN: "built in" }, service: "service",
  time: { now: "just now", ago: (length) => `${length} ago`, in: (length) => `in ${length}` },

  add: "Add", cancel: "Cancel", change: "Change", close: "Close", copied: "Copied", copy: "Copy", notCopied: "Select the text and copy it by hand: this browser does not let the page copy.", create: "Create", done: "Done", more: "More actions",
  new: "New", no: "no", choose: "Choose …", none: "none", open: "Open", required: "required", request: "request", save: "Save", search: "Search", searchShort: "Search",
  sections: "Sections", showMore: "Show more", skip: "Skip to the content", tryAgain: "Try again", yes: "yes", whole: "Details", hide: "Hide",
  changed: "changed since its deployment", changedAbout: "Its settings or variables were changed: the next deployment uses them.", freeOf: (free, whole) => `${free} of ${whole} free`, noneToChoose: "none yet", noneYet: (things) => `No ${things} yet.`, nothingFound: "Nothing has this name.", notAllRead: (reason) => `Not everything is searched. ${reason}`, nothingYet: "Nothing yet.", reading: "Being read …", results: "Results", path: "Path", previous: "Previous", following: "Next", mainNavigation: "Main navigation",
  environment: "Environment", present: "At present", onePerLine: "one on each line", mustBeJson: "Write it as JSON.",
  searchPlaceholder: "Search services, environments, projects", palettePlaceholder: "Search everything, and every action of the API",
  paletteHint: "↑ ↓ choose · Enter opens · Esc closes · Ctrl-K with all actions",
  asApi: "The same with the API and the command line", asCommand: "As a command",
  typeName: (name) => `Type ${name} to confirm`,
  between: (least, most) => `From ${least} to ${most}`, atLeast: (least) => `At least ${least}`,
  asOf: "As of", refresh: "Refresh",
  yourTime: "In your time zone", lastSeen: (time, why) => `Last seen ${time.toLocaleTimeString()}, trying again … ${why || ""}`.trim(),
  noDatabase: "The server answers, but cannot read its database.", refused: (why) => `Nothing more is shown here. ${why}`,
  doneWith: (what) => `${what}: done.`,

  places: { overview: "Overview", overviewShort: "Home", new: "New service", newShort: "New", organization: "Organization", organizationShort: "Settings", audit: "Audit", account: "Account" },
  tabs: { overview: "Overview", runs: "Runs", plan: "Plan", resources: "Resources", deployments: "Deployments", tags: "Tags", logs: "Logs", requests: "Requests", domains: "Domains", variables: "Variables", metrics: "Metrics", terminal: "Terminal", settings: "Settings", activity: "Activity", deploymentRestriction: "Restrictions" },
  columns: {
    state: "State", name: "Name", where: "Where", version: "Version", deployed: "Deployed", services: "Services", cluster: "Cluster", address: "Address", instances: "Instances", cpu: "CPU", memory: "Memory",
    number: "Number", action: "Action", author: "By", took: "Took", when: "When", created: "Created",
  },
  origins: { API: "API", CLI: "command line", CONSOLE: "console", GIT: "git", WINDLASS: "Windlass", TERRAFORM_PROVIDER: "Terraform provider" },
  keys: {
    title: "Keys",
    list: [["/", "search"], ["Ctrl-K", "search with every action"], ["g o", "overview"], ["g n", "new service"], ["g s", "organization"], ["g a", "audit"], ["g u", "account"],
      ["j k", "next and previous row"], ["[ ]", "previous and next tab, deployment or environment"], ["Enter", "open"], ["Esc", "close, or go up"], ["?", "this list"]],
  },
  missing: { title: "There is nothing here", text: "Check the address, or open the overview: what was here may be deleted." },

  needsScope: (scope) => `You may not do this: it needs the right ${scope}${scope === "Admin" ? "" : " or Admin"}. Ask an admin of the organization.`,
  signIn: {
    title: "Sign in", done: (name) => `You are signed in as ${name}. If this is not you, sign out on the page Account.`, already: "You are signed in already. To use the link, sign out first.", ended: "Sign in again: the session has ended.", button: "Sign in", with: (name) => `Sign in with ${name}`,
    invited: "You are invited. Sign in with the e-mail address to which the invitation was made: it is used up by that.",
    withLink: "With a link", linkExplained: "Run this where you use the command line, and open the link that it prints. It works once.",
    withToken: "With an API token", token: "API token", tokenExplained: "The first start of the server prints one. It is not kept in this browser: it is exchanged for a session.",
    problems: {
      lost: "Try again: the sign-in took too long, or was begun in another browser.", refused: "Try again: the provider did not confirm who you are.",
      unreachable: "Try again later, or sign in with a link: the provider does not answer.",
      broken: "Tell the operator of this server, or sign in with a link: Windlass cannot use what the provider answers. The log of the server says why.",
      clock: "Tell the operator of this server, or sign in with a link: the clock of the provider and that of this server differ too much.",
      no_member: "Ask an admin for an invitation: you are signed in, but not a member here.",
      no_email: "Confirm your e-mail address at the provider, and try again: only a confirmed address shows that an invitation is yours.",
      client: "Tell the operator of this server, or sign in with a link: the provider does not take the client id, the secret or the callback address of the settings.",
    },
  },

  invitation: {
    title: "An invitation", present: (name) => `You are signed in as ${name}.`, again: "Sign out, and sign in with it",
    how: "The invitation is used up when a person signs in with the e-mail address to which it was made. If that is you and you did, you are a member already.",
  },

  overview: {
    title: "Overview", attention: "Needs attention", changing: "Changing now", recent: "Deployed last", fromFolder: "Or in the folder of an application, with the command line:", nothingRuns: "Nothing runs here yet.", allWell: "all is well", manyErrors: (share) => `${Math.round(share * 100)} % of its requests in the last 5 minutes were answered with an error (5xx).`,
    empty: "Bring an application from a git repository: Windlass finds out how it is built and started, and gives it an address.",
    noServices: "No services yet.", noEnvironments: "No environments yet.", services: (count) => plural(count, "service"), more: (count) => `and ${count} more`,
    running: (count, all) => `${count} of ${plural(all, "service")} running`, troubled: (count) => `${count} ${count === 1 ? "needs" : "need"} attention`, busy: (count) => `${count} changing now`,
  },
  projectPage: {
    about: "Environments of this project.", environments: "Environments", newEnvironment: "New environment", mode: "Mode", none: "none",
    empty: "An environment holds services that belong together, such as production.", removeWill: "All environments of this project, with their services and data, are deleted.",
  },
  previews: { button: "Previews of pull requests", preview: "preview", pullRequest: (number) => `pull request #${number}` },
  environmentPage: {
    view: "View", list: "List", search: "Search by name", ofAll: (shown, all) => `${shown} of ${plural(all, "service")}`, graph: "Dependency graph", noUses: "No service names another in its variables.", empty: "Nothing runs in this environment. Add an application or a database.",
    hours: "Running hours", choose: (name) => `Choose ${name}`, deployAll: "Deploy all", deployChosen: (count) => `Deploy ${count}`, stopChosen: (count) => `Stop ${count}`, stopAll: "Stop all", asTerraform: "Export as Terraform", asManifests: "Export as manifests", order: "In this order; services that others wait for come before them:",
    deployAllTitle: (name) => `Deploy all of ${name}`, deployAllWill: (count) => `The newest version of ${plural(count, "service")} is built and started. What serves now goes on until its successor is ready.`,
    deployAllDone: (count) => `${plural(count, "deployment")} requested.`, stopDone: (count) => `${plural(count, "service")} will stop.`, removeWill: "All services of this environment, with their data, are deleted.", removeResources: "The resources of its Terraform modules are destroyed.",
  },
  actions: {
    deploy: {
      button: "Deploy", title: (name) => `Deploy ${name}`, begins: "The newest version is built and started.", choose: "Choose another commit", newest: "the newest of the branch",
      replaces: (count) => `The newest version is built. Then ${plural(count, "instance")} ${count === 1 ? "is" : "are"} replaced, while requests go on being served.`,
    },
    stop: { button: "Stop", title: (name) => `Stop ${name}`, will: "Requests under way are finished, then all instances end. Data and settings stay; nothing answers until the next deployment.", done: (name) => `${name} is stopping.` },
    "restart-service": { button: "Restart", title: (name) => `Restart ${name}`, will: "The instances are replaced one after the other by new ones of the same version, with the variables of now.", done: (name) => `${name} is restarting.` },
    uninstall: { button: "Destroy resources", title: (name) => `Destroy the resources of ${name}`, done: (name) => `The resources of ${name} are being destroyed.` },
    cancelDeployment: { button: "Cancel deployment", title: (name) => `Cancel the deployment of ${name}`, will: "The deployment ends where it is. The version that serves stays.", done: (name) => `The deployment of ${name} is being cancelled.` },
  },
  clone: { button: "Clone", title: (name) => `Clone ${name}`, nameOf: (name) => `${name}-copy`, will: "The copy has the settings, the variables and the secrets, and no data. Nothing of it runs until it is deployed.", preview: "Show what is copied", comes: "Copied", lacks: "Not copied", stages: "Stages", stage: "Stage", settings: "Advanced settings and restrictions", service: "Service", secret: "secret" },
  rollback: {
    button: "Roll back", here: "Roll back to this", title: (name) => `Roll back ${name}`, to: (name, number) => `Roll back ${name} to v${number}`, none: "There is no earlier version to go back to.", sameBuild: "the same commit as now", otherBuild: "another commit than now",
    will: "The chosen version is started again, with its settings, variables and secrets. What serves goes on until it is ready. Built-in variables, storage, names and domains stay.",
    willOfEnvironment: "Each service goes back to the version that it ran then, with its settings, variables and secrets, in the order of the stages. Services that run so already are not deployed.",
    chooseEnvironment: "Choose the deployment of the environment to go back to.", done: (name) => `${name} goes back.`, keep: "Keep the present settings, variables and secrets", unknown: "The settings of that version were not kept, so the present ones stay.",
    changes: "Differences", present: "Now", former: "Then", absent: "none", changed: "changed", secret: "secret", same: "It runs as it did then.", version: (number, isSame) => `Back to v${number}, ${isSame ? "the same build" : "another build"}.`,
    missing: (keys) => `Create these secrets again first, because they were deleted since: ${keys.join(", ")}`,
  },
  remove: { button: "Delete", title: (name) => `Delete ${name}`, will: "The service, its deployments, logs and data are deleted. This cannot be undone.", forGood: "It is deleted. This cannot be undone.", done: (name) => `${name} is deleted.` },

  serviceOverview: {
    runs: "What runs", nothing: "nothing", by: "By", addresses: "Addresses", lastRun: "Last run", nextRun: "Next run", noRun: "none yet", noAddress: "None is public. Other services reach it by its variables.", noPort: "It has no port, so nothing reaches it. If it serves HTTP, add the port on which it listens.", toPorts: "Add a port", recent: "Deployed last", source: "Source", resources: "Resources",
    neverDeployed: "It was never deployed.", uploaded: "Uploaded folder", pushed: "Pushed here", push: "Push", pushHow: "The password is an API token, with any user name. `windlass init` sets both up.", noInstances: "none", ready: (ready, all) => `${ready} of ${all} ready`,
  },
  deployment: {
    serves: "serves now", present: "present version", asked: (name) => `requested by ${name}`, ended: (name, state) => `${name}: ${state}.`, run: "Run", release: "Release command", command: "Command", exit: "Exit code", reason: "Reason",
    usage: "What the build used", cpu: "Processor time", memory: "Peak memory", unmeasured: "not measured on this engine", seconds: (seconds) => `${seconds.toFixed(1)} s`,
    stages: { QUEUED: "Queued", FETCH: "Fetch", BUILD: "Build", COMMAND: "Command", START: "Start and switch" },
  },
  unsaved: { title: "Leave without saving?", text: "Edits that are not saved would be lost.", inDialog: "What you typed here is not saved, and would be lost.", leave: "Leave" },
  failure: {
    lines: "Its last lines", again: "Try again", details: "The deployment", addVariable: (name) => `Add ${name}`, settings: (section) => `Settings: ${section}`, newDatabase: "New database", whatFailed: "See what failed",
  },
  runs: {
    start: "Run now", startTitle: (name) => `Run ${name} now`, startWill: "The deployed version runs once, beside its timetable. A change here is for this run only.", arguments: "Arguments", commandHelp: "Empty: what the image starts. If the image starts nothing, the first argument is the program.", empty: "It has not run yet.",
    one: (number) => `Run ${number}`, number: (number) => `#${number}`, cause: "Cause", started: "Started", exit: "Exit code", command: "Command", due: "Was due", memory: "Peak memory", variables: "Variables set", took: (length) => `took ${length}`,
    causes: { SCHEDULE: "timetable" }, events: { ON_START: "deployment", ON_STOP: "stop", ON_DELETE: "deletion", CRON: "timetable" }, forcedBy: (name) => (name ? `run by ${name}` : "run by hand"), retry: (number) => `retry ${number}`, madeUp: (count) => `timetable, in place of ${plural(count, "missed time")}`,
    timetable: "Timetable", cron: "As cron", zone: "Time zone", now: "At present", active: "active", inactive: "not active: deploy the job first", next: "Next", clock: "Time", there: (zone) => `In ${zone}`, here: "Your time",
    cancel: "Cancel run", cancelWill: "The program ends, and the run is not retried.", canceled: (number) => `Run ${number} is being cancelled.`,
  },
  plan: {
    title: "Plan", make: "Plan", asked: "The plan is being made.", underWay: (number) => `Deployment v${number} is under way.`, empty: "A plan says what a deployment would add, change and destroy. It changes nothing.", of: (number) => (number ? `Plan of v${number}` : "Plan"),
    isTrue: "still true: it can be applied as it is", isPast: "applied, or the state has changed since", noChange: "It changes no resource.", asText: "The plan as text", counts: { added: "to add", changed: "to change", destroyed: "to destroy" },
    actions: { create: "add", update: "change", destroy: "destroy", replace: "replace", read: "read", forget: "forget" }, apply: "Apply this plan", applyTitle: (name) => `Apply the plan of ${name}`, applyWill: (counts) => `Exactly these changes are made (${counts}). If the state changes before, nothing is done.`,
    earlier: "Newest plans", changes: "Changes", show: "Show", shown: "shown", lock: "Lock on the state", isFree: "No run holds it.", owner: "Owner", operation: "Operation", age: "Held for", run: "Deployment", isHeld: "Its run is under way, and releases it.",
    isLeft: "Its run has ended without releasing it. Later runs fail until it is released.", unlock: "Release the lock", unlockWill: "Make sure that no program elsewhere still works on this state.",
    versions: "Versions of the state", noVersions: "No state is kept here yet.", current: "present", size: "Size", restore: "Restore", restoredFrom: (number) => `(restored from ${number})`, restoreTitle: (number) => `Restore version ${number} of the state`,
    restoreWill: "Its content becomes the newest version. Resources are not changed until the next deployment.", restored: (number) => `Version ${number} of the state is the present one again.`,
  },
  tags: {
    title: "Newer tags", present: "Image", digest: "Digest", tag: "Tag", moved: "the same tag, another image now", look: "Look again", deploy: "Deploy this tag", none: (tag) => `The registry has no newer tag than ${tag}.`, deployTitle: (name, tag) => `Deploy ${tag} to ${name}`,
    begins: "This tag is pulled and started, and becomes the tag in the settings.", replaces: (count) => `This tag is pulled. Then ${plural(count, "instance")} ${count === 1 ? "is" : "are"} replaced, while requests go on being served.`,
  },
  logs: {
    follow: "Follow", pause: "Pause", search: "Search these lines", everywhere: "Search the whole log", only: "only matches", wrap: "wrap", jump: "Go to", copy: "Copy", download: "Download", open: "Open this line",
    linkTo: "copies a link to this line", linkCopied: "The link to this line is copied.", copied: (count) => `${plural(count, "line")} copied.`, empty: "There are no lines yet.", nothingSince: "There are no lines since then.", noMatch: "No line contains this text.",
    matches: (count) => plural(count, "match", "matches"), lines: (count, isMore) => `${plural(count, "line")}${isMore ? "; older ones when you scroll up" : ""}`,
  },
  metrics: {
    span: "Time span", minutes: (count) => (count === 60 ? "1 hour" : `${count} min`), spans: { "24h": "24 hours", "7d": "7 days", "30d": "30 days" },
    silent: (time) => `Nothing was measured since ${time}: the instances have ended, or are not measured.`,
    empty: "Deploy the service: there are no measurements of this time.", instances: "Instances", cpu: "Processor (of one core)", memory: "Memory", requests: "Requests", latency: "Latency", instance: (name) => name.replace(/^(\d+)-(\d+)$/, (_, version, index) => `v${version} #${Number(index) + 1}`), percent: (value) => `${value} %`, perSecond: (value) => `${value}/s`,
  },
  terminal: {
    about: "A shell in an instance. It needs the scope Deploy, and is written to the audit. Shift-Tab leaves the terminal.", notRunning: "Nothing runs: deploy the service first.", start: "Open a shell",
    output: "Terminal", connected: "Connected.", ended: (code) => `The shell has ended with ${code}.`, closed: "The connection is closed.",
  },
  settings: {
    about: "Nothing is changed yet.", effectNow: "Takes effect at once.", effectNext: "Takes effect at the next deployment.", saveAndDeploy: "Save and deploy", saveAndPlan: "Save and plan", saved: "Saved.", nothingChanged: "Nothing was changed.",
    changed: (count) => `${plural(count, "change")}:`, discard: "Discard", search: "Search settings", results: "Found", nothingFound: "No setting has these words.", named: "Name", whatRuns: "What runs",
    sections: { general: "General", schedule: "Schedule", module: "Module and variables", build: "Build", start: "Start", ports: "Ports", traffic: "Requests", probes: "Health checks", storage: "Storage", other: "Advanced", declaration: "As code", danger: "Delete" },
    declaration: "The whole service as code", declarationAbout: "As it can be sent to the API, or with the command line.", danger: "Delete this service",
    size: { title: "Size of an instance", about: "The most that one instance may use. A program that needs more memory is restarted.", cpu: "CPU", cpus: "CPUs", memory: "Memory", unit: "Unit of the memory", own: "Custom", ownAbout: "set both" },
    instances: { title: "Instances", number: "Number of instances", numberHelp: "0 stops the service.", fixed: "Fixed number", load: "Follow the load", noLimit: "no limit", loadHelp: "Instances are added while their CPU is busy, and removed when it is not." },
    source: {
      title: "Source", git: "Git repository", push: "Pushed here", pushHelp: "What `git push` sends to the address on the overview is built: windlass://push.", upload: "Uploaded folder", uploadHelp: "What `windlass up` uploads is built.", url: "Repository", branch: "Branch", root: "Folder", token: "Git token",
      automatic: "Deploy on every push", automaticHelp: "Each new commit of the branch is deployed.", paths: "Only for changes in", pathsHelp: "One path on each line; a push that changes none of them is not deployed.",
      webhook: {
        title: "Push webhook", reading: "Reading the state of the webhook…", unknown: "Its state cannot be read now.", setUp: "Set up", byHand: "Enter by hand", url: "Address", secret: "Secret",
        states: { ACTIVE: "The git server sends pushes", NOT_CONFIGURED: "Not set up", MISCONFIGURED: "Set up wrongly", UNABLE_TO_VERIFY: "Cannot be verified" },
        abouts: { NOT_CONFIGURED: "New commits are found by looking, once a minute. With a webhook, a push is deployed at once.", MISCONFIGURED: "It is switched off, sends too little, or has a former address. Set it up again.", UNABLE_TO_VERIFY: "Windlass asks the git server with the git token of the service, or waits for a first delivery." },
        enter: "Enter both at the git server, with the content type application/json, and pushes as its event; for previews, also pull requests and comments. The secret is shown once.", replaces: "The webhook of this repository gets a new secret, and the former one ends for all services of the repository.", recent: "Recent pushes", none: "No push has come yet.",
      },
    },
    database: { title: "Server", versionHelp: "A newer version of the same server reads the data of an older one only if its makers say so.", isPublic: "Reachable from outside", isPublicHelp: "On a port of the machine, with its password. Otherwise only services of its environment reach it." },
    health: {
      kind: "Kind of check", kinds: { none: "None", http: "HTTP", tcp: "TCP", exec: "Command", grpc: "gRPC" }, readiness_probe: "Ready for requests", liveness_probe: "Still alive",
      abouts: { readiness_probe: "An instance gets requests while this check passes. Without one, an open port is enough.", liveness_probe: "An instance that fails this check is restarted." },
      path: "Path", port: "Port", tls: "Ask over HTTPS", tcpHelp: "It is well while the port is open.", command: "Command", commandHelp: "Runs in the instance. It is well if the exit code is 0. To try it, open a terminal.", service: "Service", timing: "How often, and how patiently", seconds: "seconds",
      times: { initial_delay_seconds: "First check after", period_seconds: "Then every", timeout_seconds: "Wait for an answer", success_threshold: "Passes until well", failure_threshold: "Failures until unwell" },
      tryIt: "Try it now", nothingRuns: "Nothing runs: deploy the service first.", answered: (name, isHealthy) => `${name}: ${isHealthy ? "passes" : "fails:"}`,
    },
  },
  variables: {
    search: "Search by name", withCommand: "Or with the command line:", paste: "Paste a .env file", pasteHelp: "KEY=value on each. You see the difference before anything is saved.", allSecret: "All of them are secrets", add: "Add a variable",
    key: "Name", keyMissing: "Name it, such as GREETING.", keyForm: "Begin it with a letter or _, and go on with letters, digits, _, . and -, such as SMTP_HOST.", pasted: "Lines", value: "Value", from: "From", changed: "Changed", change: "Change", history: "Who changed it", historyOf: (key) => `Who changed ${key}`, changedBy: "By", noHistory: "There are no changes.", historyEnds: "Older changes are no longer in the audit.", uses: "Who uses it", usesOf: (key) => `Who uses ${key}`, noUses: "No service sees it.", usesEnd: "There are more services: these are the ones that you may see, and 2,000 at most.", useColumn: "Use", ifChanged: "If it changes", restarts: "out of date", stays: "stays", usedIn: "In", anotherValue: "none: it has another value here", getsIt: "gets it", renamed: (key) => `It was called ${key} before.`, alsoChanged: (fields) => `Also changed: ${fields.join(", ")}`, changedMeanwhile: (key) => `Another person saved ${key} while you were editing. At present, and with yours:`, kept: "not saved; the value of the other person stays", override: "Override here", whole: "Show all", less: "Show less", isSecret: "secret", secret: "Secret",
    secretHelp: "A secret is stored encrypted and never shown again.", use: "Use the address of", valueHelp: "{{OTHER_NAME}} stands for the value of another variable.", aliasOf: "same as", emptyValue: "(empty)", removed: "is deleted",
    overrides: (level) => `overrides that of the ${level}`, overridden: "has no effect here: it is overridden", actionsOf: (key) => `Actions of ${key}`, changeOf: (key) => `Change ${key}`, pending: (count) => `${plural(count, "change")} not saved yet`, stage: "Add to the changes",
    takesEffect: "Takes effect at the next deployment.", save: "Save", saveAndDeploy: "Save and deploy", discard: "Discard", discardAll: "Discard all", discardOne: (key) => `Discard the change of ${key}`, saved: "Saved. It takes effect at the next deployment.",
    empty: "Variables tell a program what differs from place to place, such as the address of its database.",
    injected: (count) => `Set by Windlass: ${count}`, injectedAbout: "Programs get these too, and other variables may mention them, as {{NAME}}. A variable of yours with one of these names wins.",
  },
  newService: {
    title: "New service", about: "From a repository to an address.", what: "What it is", kinds: { application: "Application from git", database: "Database", container: "Container image", job: "Job", terraform: "Terraform module" },
    abouts: {
      container: "Runs an image of a registry as it is.", needsImages: "It needs a cluster with Docker: the engine of this environment runs no images. The container can be created, but not deployed here.", database: "Runs beside the services that use it, which get its address and password as variables.",
      job: "Runs a command and ends: at set times, when its environment starts or stops, or when you ask for it.", terraform: "Plans and applies a module of a repository, and keeps its state.",
    },
    noEnvironment: "A service lives in an environment of a project. There is none yet.", firstEnvironment: "production", madeWithIt: "There is no environment yet: this one is made with the service.", makeEnvironment: "Make a project with an environment", firstProject: "First project",
    url: "Repository", urlSearch: "Type a part of its name to choose one that a git token sees, or enter its address.", urlHelp: "Such as https://github.com/acme/shop.git or git@github.com:acme/shop.git. A private one needs a token of its host: Organization, Git tokens.", urlMissing: "Paste the address of a repository.", branch: "Branch", defaultBranch: "its default branch", root: "Folder", gitToken: "Token for a private one", look: "Detect", lookAgain: "Detect again",
    found: (what) => `Found: ${what}`, foundNothing: "Nothing was recognised: say below how it is built and started.", foundBelow: "No application in this folder", onlyFolder: (folder) => `The only application of the repository is in ${folder}, so this folder is deployed.`, candidates: "There are applications in other folders. Choose one:",
    settings: { install: "Install command", build: "Build command", start: "Start command", release: "Release command", static_folder: "Static folder", language_version: "Language version", port: "Public port", process: "Process" },
    noCommand: "none", noPort: "none: it answers no requests", variables: "Variables", variablesHelp: "Optional: lines of KEY=value.", createOnly: "Create only", create: "Create and deploy", further: "Further settings",
    automaticHelp: "Each new commit of the branch is deployed, once the first deployment has succeeded.", database: "A database along with it", noDatabase: "None", databaseHelp: "It is created in the same environment, and the application gets its address as a variable.",
    databases: { POSTGRESQL: "relational", MYSQL: "relational", REDIS: "cache, queues", MONGODB: "documents" }, kind: "Kind of database", storage: "Storage",
    steps: [["Paste a repository", "GitHub, GitLab, Bitbucket, or any other git server."], ["Read what was found", "The language, the framework, and how it is built and started. Each can be changed."], ["Create and deploy", "You see the build line by line, and get an address."]],
  },
  newJob: {
    what: "What it runs", when: "When it runs", git: "Git repository", image: "Container image", imageName: "Image", tag: "Tag", command: "Command", commandHelp: "As in a shell. Without one, the start command of the repository or the entrypoint of the image runs.",
    timetable: "On a timetable", events: "When its environment changes", every: "How often", everies: { minutes: "every few minutes", hour: "every hour", day: "every day", week: "every week", month: "every month", own: "as cron" },
    minutes: "Minutes", ofMinutes: (count) => `every ${count} minutes`, weekday: "Weekday", weekdays: ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"], day: "Day of the month", dayHelp: "From 1 to 28", at: "At", cron: "Cron", cronHelp: "Minute, hour, day, month, weekday.", zone: "Time zone",
    noCron: "Write five fields: minute, hour, day, month and weekday, such as 30 2 * * mon-fri.", never: "It never comes.", noEvent: "Choose at least one.", eventNames: { on_start: "When the job is deployed", on_stop: "When it is stopped", on_delete: "When it is deleted" },
    inWords: ({ every, at, minutes, weekday, day, zone }) => `${{ minutes: `Every ${minutes} minutes`, hour: "Every hour", day: `Every day at ${at}`, week: `Every ${words.newJob.weekdays[weekday]} at ${at}`, month: `On day ${day} of every month at ${at}`, own: "The next times" }[every]} (${zone})`,
  },
  members: {
    title: "Members", about: "A role applies to the whole organization, and a change of it takes effect at once.", invite: "Invite", empty: "Invite people: until then, tokens are the only way in.",
    email: "E-mail", emailMissing: "Write the address with which the person signs in.", role: "Role", since: "Since", link: "Link", copyLink: "Copy the link", withdraw: "Withdraw", invitations: "Invitations", change: "Change the role", inviteHelp: "You get a link for the person with this address.",
    changeTitle: (name) => `Change the role of ${name}`, changeWill: (role, about) => `${role}: ${about}. It takes effect at once.`, changed: (name, role) => `${name} now has the role ${role}.`,
    invited: (name) => `${name} is invited`, removeTitle: (name) => `Remove ${name}`, removeWill: "All access ends at once. It can be given again by an invitation.", removed: (name) => `${name} is no longer a member.`, withdrawn: (name) => `The invitation of ${name} is withdrawn.`,
  },
  audit: {
    title: "Audit", about: "Every action with its person, time, client and address.", empty: "No event fits these filters.", none: "There are no events yet.", changed: (count) => `${plural(count, "field")} changed`,
    others: "Others", filters: { triggeredBy: "Who", eventType: "All events", targetType: "All things", origin: "All clients", fromTimestamp: "From", toTimestamp: "To" },
  },
  events: {
    CREATE: "created", UPDATE: "changed", DELETE: "deleted", DEPLOYED: "deployed", DEPLOY_QUEUED: "asked to deploy", DEPLOYMENT_STARTED: "began to deploy", STOP_QUEUED: "asked to stop", STOPPED: "stopped",
    RESTART_QUEUED: "asked to restart", DEPLOYMENT_SUPERSEDED: "replaced a waiting deployment of", TRIGGER_DEPLOY: "asked to deploy", TRIGGER_STOP: "asked to stop", TRIGGER_CANCEL: "asked to cancel", SIGN_IN: "signed in", SIGN_OUT: "signed out", SESSION_ENDED: "ended another session of their own", PASSWORD_CHANGED: "changed the password of", PASSWORD_LINK_CREATED: "made a link to choose a password for", SECOND_FACTOR_ADDED: "added an authenticator app to", SECOND_FACTOR_REMOVED: "removed the authenticator app of", RECOVERY_CODE_USED: "signed in with a recovery code as", EXPORT: "created a link to a report on builds of", SHELL: "ran a command in", SHELL_ENDED: "closed the shell in", DELETED: "deleted", RESTARTED: "restarted", TRIGGER_RESTART: "asked to restart", TRIGGER_DELETE: "asked to delete", WEBHOOK_TESTED: "tested", WEBHOOK_REPLAYED: "replayed an event of", GIT_WEBHOOK_RENEWED: "renewed the push webhook of", GIT_WEBHOOK_REMOVED: "removed the push webhook of", CLUSTER_LOCKED: "locked", CLUSTER_UNLOCKED: "removed the lock of", WEBHOOK_DISABLED: "disabled", DEPLOYMENT_FAILED: "failed to deploy", DEPLOY_FAILED: "failed to deploy", SERVICE_BROKE: "noticed a failure of", SERVICE_RECOVERED: "noticed the recovery of", RUN_FAILED: "noticed a failed run of", TOKEN_USED: "used, for the first time from this address, the",
  },
  account: {
    title: "Account", organization: "Organization", who: "Who is signed in", kind: "Kind", person: "Person", token: "API token", ends: "This session ends, unless it is used", sessions: "Sessions in browsers", sessionsAbout: "End those that you do not know.",
    browser: "Browser", thisOne: "this one", begun: "Begun", used: "Last used", end: "End session", endWill: "That browser is signed out at once.", ended: "The session has ended.", signOut: "Sign out", switchTo: "Switch to it",
  },
  conflict: {
    title: "Changed in the meantime", will: "Another person saved changes while you were editing. Compare both; saving yours replaces the fields below that have a value of yours, and keeps the others.",
    field: "Field", theirs: "There now", mine: "Yours", stays: "stays as it is", saveMine: "Save mine",
  },
  operation: { answer: "Answer", noAnswer: "Done. The answer is empty." },
  upgrade: {
    told: "Windlass was upgraded. The next page that you open is of its version.", load: "Load this page again",
    noModule: "A part of the console cannot be loaded. Try again: the server is away, or is being upgraded.",
  },
  slow: "The server has not answered for 20 seconds. The page goes on waiting.", noAnswer: "The server did not answer within 100 seconds. Try again later.",
  mayBeDone: "What you asked for may have been done all the same. If you ask for it again, it is done only once.",
  noServer: "The server does not answer. Check that it runs and that this machine reaches it, then try again.",
  dotenv: { notPair: (line) => `Line ${line}: write it as KEY=value.`, openQuote: (line) => `Line ${line}: the quote is not closed.` },
  shownOnce: { title: "Keep this now", text: "Copy it now: it cannot be shown again.", done: "I have kept it" },
};

// Names out of addresses and answers are looked up here: none finds what every object has, such as `constructor`.
function forgetPrototypes(group) {
  for (const part of Object.values(Object.setPrototypeOf(group, null))) if (part?.constructor === Object) forgetPrototypes(part);
}
forgetPrototypes(words);
