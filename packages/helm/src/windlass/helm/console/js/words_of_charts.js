// Texts of Helm charts: where a chart is, and its values. They are loaded with the forms.

export const charts = {
  about: "Installs a chart in the namespace of its environment, on a Kubernetes cluster.", source: "Chart", kinds: { stored: "Chart repository", git: "Git repository" },
  repository: "Repository", repositoryHelp: "Choose one to list its charts.", chart: "Chart", chartHelp: "OCI registries do not list charts: type the name.", version: "Version", versionHelp: "The newest one is selected.",
  addRepository: "Add a chart repository", noRepository: "There is no chart repository yet: add one, or use a git repository.",
  gitHelp: "The folder with Chart.yaml. Its dependencies are fetched in the versions of Chart.lock.",
  values: "Values", valuesHelp: "YAML that overrides the values of the chart. qovery.env.KEY stands for the variable or secret KEY.", defaults: "Show the values of the chart", defaultsOf: "Values of the chart",
  options: "Options", timeout: "A run ends after", seconds: "seconds", wholeCluster: "May change the whole cluster", wholeClusterHelp: "Off: only the namespace of the environment. To turn it on needs Admin.",
  create: "Create and plan", createAndDeploy: "Create and deploy", createHelp: "A plan shows what would change in the cluster. It changes nothing.",
  missing: { repository: "Choose a repository.", chart: "Choose a chart.", version: "Choose a version.", url: "Paste the address of the repository." },
};
