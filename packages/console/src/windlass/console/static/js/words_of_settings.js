// Texts of sections of the settings. They are loaded with them.

export const forms = {
  source: { pushes: "Pushes and pull requests", previews: "Previews of pull requests", previewsHelp: "An environment has them on its page Previews. Off: pull requests for this service alone get none." },
  build: {
    title: "How it is built", kinds: { AUTO: "Automatic", RECIPE: "As detected", DOCKERFILE: "Dockerfile" },
    abouts: { AUTO: "The Dockerfile of the repository if there is one, otherwise as detected.", RECIPE: "The language and framework that are found, with the commands below where you name them.", DOCKERFILE: "Every instruction of the Dockerfile, and nothing else." },
    names: { install_command: "Install command", build_command: "Build command", language_version: "Language version", dockerfile_path: "Path of the Dockerfile", docker_target_build_stage: "Stage", static_folder: "Folder of the site", static_fallback: "Page for unknown paths" },
    helps: { install_command: "Empty: the one that is detected.", build_command: "Empty: the one that is detected.", language_version: "Empty: the one that the repository names.", docker_target_build_stage: "Empty: the last one.", dockerfile_path: "Empty: Dockerfile, or as detected without one.", static_folder: "What the build leaves there is served; no program runs.", static_fallback: "For sites that route in the browser." },
    examples: { install_command: "npm ci", build_command: "npm run build", language_version: "", dockerfile_path: "Dockerfile", docker_target_build_stage: "", static_folder: "dist", static_fallback: "index.html" },
    packages: "Debian packages", packagesHelp: "Beside those that are detected, such as ffmpeg.", site: "Static site", siteHelp: "The gateway serves the files itself.", headers: "Headers", noHeaders: "No headers of your own.", ofHeader: { path: "Path", name: "Name", value: "Value" },
  },
  ports: {
    title: "Ports", about: "Where the program listens, and who reaches it there.", none: "No port: nothing reaches this service.", automatic: "Find the port", automaticHelp: "One public HTTP port follows what each build finds. A change below turns this off.",
    port: "Port", protocol: "Protocol", protocols: { HTTP: "HTTP", GRPC: "gRPC", TCP: "TCP", UDP: "UDP" }, isPublic: "Public", outside: "Port outside", chosen: "chosen by Windlass", more: "Name and path", name: "Name", path: "Only below this path", pathHelp: "Requests to other paths do not reach this port.", rewrite: "Sent to the program as",
    reach: { HTTP: "Visitors reach it by HTTPS or HTTP under the addresses of the service.", GRPC: "Clients reach it by gRPC under the addresses of the service.", TCP: "Clients reach it on a port of the machine.", UDP: "Clients reach it on a port of the machine." }, inside: "Only services of the same environment reach it.",
  },
  storage: {
    title: "Volumes", about: "Folders whose files stay over deployments and restarts. Each deployment then stops the service for a moment, because two versions must not write to the same files.", none: "No volume: files that the program writes are gone with the next deployment.", folder: "Folder", size: "Size", gb: "GB", removed: "A deleted volume loses its files with the next deployment.",
    database: "Storage", databaseHelp: "Room for the data.",
  },
  schedule: { title: "When it runs", command: "Command", commandHelp: "As in a shell. Without one, the start command of the repository or the entrypoint of the image runs.", missed: "Runs that were missed", missedHelp: "Due times that pass while no server of Windlass runs.", misseds: { ONCE: "are made up once", SKIP: "are left out" }, arguments: "Arguments", retries: "Retries of a failed run", retriesHelp: "With growing pauses.", longest: "Ended after", longestHelp: "Empty: as long as the server permits.", minutes: "minutes" },
};
