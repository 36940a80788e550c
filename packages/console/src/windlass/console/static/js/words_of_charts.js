// Texts of Helm charts: where a chart is, and its values. They are loaded with the forms.

export const charts = {
  source: "Chart", kinds: { stored: "Chart repository", git: "Git repository" },
  repository: "Repository", repositoryHelp: "Its charts are listed once it is chosen.", chart: "Chart", chartHelp: "A registry of OCI lists no charts: type the name.", version: "Version", versionHelp: "The newest is chosen.",
  addRepository: "Add a chart repository", noRepository: "There is no chart repository yet: add one, or use a git repository.",
  gitHelp: "The folder with Chart.yaml. Charts that it needs are fetched as its Chart.lock says.",
  values: "Values", valuesHelp: "YAML, which wins over the values of the chart. qovery.env.KEY stands for the variable or secret KEY.", defaults: "Show the values of the chart", defaultsOf: "Values of the chart",
  options: "Options", timeout: "A run ends after", seconds: "seconds", wholeCluster: "It may change the whole cluster", wholeClusterHelp: "Without, the chart stays in the namespace of its environment. It needs the scope Admin.",
  create: "Create and plan", createAndDeploy: "Create and deploy", createHelp: "A plan shows what would change in the cluster, and changes nothing.",
  missing: { repository: "Choose a repository.", chart: "Choose a chart.", version: "Choose a version.", url: "Paste the address of the repository." },
};
