// The sections of the settings of a service, with their fields.

export const SECTIONS = [
  ["general", ["name", "description"]],
  ["source", ["source", "git_repository", "image_name", "tag", "registry_id", "type", "version", "mode", "accessibility", "auto_deploy", "watch_paths", "terraform_files_source", "auto_deploy_config"]],
  ["schedule", ["schedule", "max_nb_restart", "max_duration_seconds"]],
  ["module", ["terraform_variables_source", "engine", "provider_version", "backend"]],
  ["build", ["builder", "dockerfile_path", "docker_target_build_stage", "language_version", "system_packages", "install_command", "build_command", "static_folder", "static_fallback", "static_headers"]],
  ["start", ["start_command", "process", "release_command", "entrypoint", "arguments"]],
  ["ports", ["automatic_port", "ports"]],
  ["probes", ["healthchecks"]],
  ["resources", ["cpu", "memory", "gpu", "min_running_instances", "max_running_instances", "autoscaling"]],
  ["storage", ["storage", "ephemeral_storage_in_gib"]],
];

const INSIDE = { internal_port: "ports", root_path: "source", branch: "source", mount_point: "storage" };

/** The section with the field that a sentence names: in backquotes, or with an underscore. */
export function sectionNamedIn(sentence) {
  for (const [word] of sentence.matchAll(/(?<=`)[a-z]+(?=`)|\b[a-z]+(?:_[a-z]+)+\b/g)) {
    const section = SECTIONS.find(([, fields]) => fields.includes(word))?.[0] || INSIDE[word];
    if (section) return section;
  }
  return null;
}
