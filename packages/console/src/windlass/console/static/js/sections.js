// The sections of the settings of a service, with their icons and their fields.

export const SECTIONS = [
  ["general", "sliders-horizontal", ["name", "description", "source", "git_repository", "root_path", "image_name", "tag", "registry_id", "type", "version", "accessibility", "auto_deploy", "watch_paths", "auto_preview", "terraform_files_source", "auto_deploy_config", "cpu", "memory", "min_running_instances", "max_running_instances"]],
  ["schedule", "calendar-clock", ["schedule", "max_nb_restart", "max_duration_seconds"]],
  ["module", "layers", ["terraform_variables_source", "backend", "engine", "provider_version", "timeout_sec", "job_resources", "action_extra_arguments"]],
  ["build", "hammer", ["builder", "dockerfile_path", "docker_target_build_stage", "language_version", "system_packages", "install_command", "build_command", "static_folder", "static_fallback", "static_headers"]],
  ["start", "terminal", ["start_command", "process", "release_command", "entrypoint", "arguments"]],
  ["ports", "network", ["automatic_port", "ports"]],
  ["traffic", "zap", []],
  ["probes", "heart-pulse", ["healthchecks"]],
  ["storage", "hard-drive", ["storage"]],
];

const INSIDE = { internal_port: "ports", branch: "general", mount_point: "storage" };

/** The section with the field that a sentence names: in backquotes, or with an underscore. */
export function sectionNamedIn(sentence) {
  for (const [word] of sentence.matchAll(/(?<=`)[a-z]+(?=`)|\b[a-z]+(?:_[a-z]+)+\b/g)) {
    const section = sectionOf(word) || INSIDE[word];
    if (section) return section;
  }
  return null;
}

/** The section with a field. */
export const sectionOf = (name) => SECTIONS.find(([, , fields]) => fields.includes(name))?.[0];
