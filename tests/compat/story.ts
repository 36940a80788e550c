// A story in which a client of the full interface uses most of what Windlass has: all through the package's calls.

import {
  ApplicationActionsApi,
  ApplicationDeploymentHistoryApi,
  ApplicationDeploymentRestrictionApi,
  ApplicationEnvironmentVariableApi,
  ApplicationLogsApi,
  ApplicationMainCallsApi,
  ApplicationSecretApi,
  ApplicationsApi,
  CloudProviderApi,
  ClustersApi,
  ContainerActionsApi,
  ContainerDeploymentHistoryApi,
  ContainerMainCallsApi,
  ContainersApi,
  DatabaseActionsApi,
  DatabaseDeploymentHistoryApi,
  DatabaseMainCallsApi,
  DatabasesApi,
  DeploymentStageMainCallsApi,
  EnvironmentActionsApi,
  EnvironmentDeploymentHistoryApi,
  EnvironmentMainCallsApi,
  EnvironmentSecretApi,
  EnvironmentVariableApi,
  EnvironmentsApi,
  HelmActionsApi,
  HelmConfigurationApi,
  HelmDeploymentHistoryApi,
  HelmDeploymentRestrictionApi,
  HelmMainCallsApi,
  HelmRepositoriesApi,
  HelmsApi,
  MembersApi,
  OrganizationApiTokenApi,
  OrganizationEventApi,
  OrganizationMainCallsApi,
  OrganizationWebhookApi,
  ProjectEnvironmentVariableApi,
  ProjectMainCallsApi,
  ProjectSecretApi,
  ProjectsApi,
  VariableMainCallsApi,
  type Configuration,
  type Status,
} from "qovery-typescript-axios";

type Api = <T>(Class: new (configuration?: Configuration) => T) => T;

const REPOSITORY = "https://git.example/acme/shop.git";
const IN_PROGRESS = /ING$|_QUEUED$/;

function expect(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(message);
}

async function settled(read: () => Promise<{ data: { state: string } }>): Promise<string> {
  for (let tries = 0; tries < 600; tries += 1) {
    const { state } = (await read()).data;
    if (!IN_PROGRESS.test(state)) return state;
    await new Promise((resume) => setTimeout(resume, 100));
  }
  throw new Error("the deployment does not end");
}

export async function story(api: Api, organizationId: string): Promise<void> {
  await organizationOf(api, organizationId);
  const project = await projectIn(api, organizationId);
  const environment = await environmentIn(api, organizationId, project);
  const services = await servicesIn(api, organizationId, environment);
  await summaries(api, organizationId, project, environment);
  await stages(api, environment, services);
  await variablesAt(api, project, environment, services.application);
  await deployments(api, environment, services);
  await histories(api, environment, services);
  await restrictions(api, services.application);
  await chartsAndTheirRepository(api, organizationId, environment);
  await webhooksAndTokens(api, organizationId);
  await deletions(api, project, environment, services);
}

async function organizationOf(api: Api, id: string): Promise<void> {
  const organizations = api(OrganizationMainCallsApi);
  const listed = (await organizations.listOrganization()).data.results ?? [];
  expect(listed.some((one) => one.id === id), "the organization is in the list");
  const read = (await organizations.getOrganization(id)).data;
  const edited = (await organizations.editOrganization(id, { ...read, description: "Sells rope" } as never)).data;
  expect(edited.description === "Sells rope", "what GET answered can be sent back");
  await organizations.listOrganizationAvailableRoles(id);
  const members = api(MembersApi);
  await members.getOrganizationMembers(id);
  await members.getOrganizationInvitedMembers(id);
  await api(OrganizationEventApi).getOrganizationEvents(id);
  await api(OrganizationEventApi).getOrganizationEventTargets(id);
  const regions = (await api(CloudProviderApi).listAWSRegions()).data.results ?? [];
  expect(regions.length > 0, "there are regions");
}

async function projectIn(api: Api, organizationId: string): Promise<string> {
  const { data: made } = await api(ProjectsApi).createProject(organizationId, { name: "shop" });
  const calls = api(ProjectMainCallsApi);
  const { data: read } = await calls.getProject(made.id);
  const { data: edited } = await calls.editProject(made.id, { ...read, description: "All of it" });
  expect(edited.description === "All of it", "the description is changed");
  const { data: listed } = await api(ProjectsApi).listProject(organizationId);
  expect((listed.results ?? []).length === 1, "one project is listed");
  return made.id;
}

async function environmentIn(api: Api, organizationId: string, project: string): Promise<string> {
  const { data: clusters } = await api(ClustersApi).listOrganizationCluster(organizationId);
  const cluster = (clusters.results ?? [])[0];
  expect(cluster !== undefined, "there is a cluster");
  const environments = api(EnvironmentsApi);
  const { data: made } = await environments.createEnvironment(project, {
    name: "production",
    mode: "PRODUCTION",
    cluster: cluster.id,
  });
  const calls = api(EnvironmentMainCallsApi);
  const { data: read } = await calls.getEnvironment(made.id);
  const { data: edited } = await calls.editEnvironment(made.id, { ...read, mode: "STAGING" });
  expect(edited.mode === "STAGING", "the mode is changed");
  await environments.listEnvironment(project);
  const { data: status } = await calls.getEnvironmentStatus(made.id);
  expect(status.state === "READY", "an environment that was never deployed is ready");
  return made.id;
}

async function summaries(api: Api, organizationId: string, project: string, environment: string): Promise<void> {
  const environments = api(EnvironmentsApi);
  const { data: numbers } = await environments.getProjectEnvironmentServiceNumber(project);
  expect((numbers.results ?? [])[0]?.service_total_number === 3, "three services are counted");
  await environments.getProjectEnvironmentsStatus(project);
  await environments.getProjectEnvironmentsOverview(project);
  const { data: projects } = await api(ProjectsApi).getOrganizationProjectStats(organizationId);
  expect((projects.results ?? [])[0]?.environment_total_number === 1, "one environment is counted");
  const organizations = api(OrganizationMainCallsApi);
  const { data: all } = await organizations.listEnvironmentsByOrganizationId(organizationId);
  expect((all.results ?? [])[0]?.id === environment, "the environment is in the list of the organization");
  const { data: services } = await organizations.listServicesByOrganizationId(organizationId, project, environment);
  expect((services.results ?? []).length === 3, "the services are in the list of the organization");
  const { data: inside } = await api(EnvironmentMainCallsApi).listServicesByEnvironmentId(environment);
  expect((inside.results ?? []).length === 3, "the services are in the list of the environment");
}

interface Services {
  application: string;
  container: string;
  database: string;
}

async function servicesIn(api: Api, organizationId: string, environment: string): Promise<Services> {
  const { data: application } = await api(ApplicationsApi).createApplication(environment, {
    name: "web",
    git_repository: { url: REPOSITORY, branch: "main", root_path: "/", provider: "GITHUB" },
    healthchecks: {},
    ports: [{ internal_port: 80, external_port: 443, publicly_accessible: true, protocol: "HTTP" }],
    storage: [{ type: "FAST_SSD", size: 4, mount_point: "/data" }],
    autoscaling: { mode: "KEDA", scalers: [{ scaler_type: "cpu", role: "PRIMARY" }] },
  } as never);
  const { data: container } = await api(ContainersApi).createContainer(environment, {
    name: "box",
    image_name: "nginx",
    tag: "1.27",
    healthchecks: {},
    ports: [{ internal_port: 80, publicly_accessible: false, protocol: "TCP" }],
  } as never);
  const { data: database } = await api(DatabasesApi).createDatabase(environment, {
    name: "orders",
    type: "POSTGRESQL",
    version: "16",
    mode: "CONTAINER",
    accessibility: "PRIVATE",
  } as never);
  await applicationCalls(api, environment, application.id);
  await containerCalls(api, environment, container.id);
  await databaseCalls(api, environment, database.id);
  return { application: application.id, container: container.id, database: database.id };
}

async function applicationCalls(api: Api, environment: string, id: string): Promise<void> {
  const calls = api(ApplicationMainCallsApi);
  const { data: read } = await calls.getApplication(id);
  const { data: edited } = await calls.editApplication(id, { ...read, description: "The page" } as never);
  expect(edited.description === "The page", "the description is changed");
  expect(JSON.stringify(edited.ports) === JSON.stringify(read.ports), "ports and their ids stay");
  await api(ApplicationsApi).listApplication(environment);
  await api(ApplicationsApi).getEnvironmentApplicationStatus(environment);
  await calls.listApplicationLinks(id);
  await calls.listApplicationCommit(id);
  await calls.getApplicationStatus(id);
}

async function containerCalls(api: Api, environment: string, id: string): Promise<void> {
  const calls = api(ContainerMainCallsApi);
  const { data: read } = await calls.getContainer(id);
  const { data: edited } = await calls.editContainer(id, { ...read, tag: "1.28" } as never);
  expect(edited.tag === "1.28", "the tag is changed");
  await api(ContainersApi).listContainer(environment);
  await api(ContainersApi).getEnvironmentContainerStatus(environment);
  await calls.listContainerLinks(id);
  await calls.getContainerStatus(id);
}

async function databaseCalls(api: Api, environment: string, id: string): Promise<void> {
  const calls = api(DatabaseMainCallsApi);
  const { data: read } = await calls.getDatabase(id);
  await calls.editDatabase(id, { ...read, description: "Where the orders are kept" } as never);
  await api(DatabasesApi).listDatabase(environment);
  await api(DatabasesApi).listEnvironmentDatabaseConfig(environment);
  await api(DatabasesApi).getEnvironmentDatabaseStatus(environment);
  await calls.getDatabaseMasterCredentials(id);
  await calls.listDatabaseVersion(id);
  await calls.getDatabaseStatus(id);
}

async function variablesAt(api: Api, project: string, environment: string, application: string): Promise<void> {
  const atProject = api(ProjectEnvironmentVariableApi);
  const { data: shared } = await atProject.createProjectEnvironmentVariable(project, { key: "SHARED", value: "1" });
  await atProject.editProjectEnvironmentVariable(project, shared.id, { ...shared, value: "2" });
  await atProject.listProjectEnvironmentVariable(project);
  const { data: key } = await api(ProjectSecretApi).createProjectSecret(project, { key: "PAYMENT", value: "rope" });
  await api(ProjectSecretApi).listProjectSecrets(project);
  await api(EnvironmentVariableApi).createEnvironmentEnvironmentVariableOverride(environment, shared.id, { value: "3" });
  await api(EnvironmentVariableApi).listEnvironmentEnvironmentVariable(environment);
  await api(EnvironmentSecretApi).createEnvironmentSecretOverride(environment, key.id, { value: "twine" });
  await api(EnvironmentSecretApi).listEnvironmentSecrets(environment);
  const atApplication = api(ApplicationEnvironmentVariableApi);
  const { data: alias } = await atApplication.createApplicationEnvironmentVariableAlias(application, shared.id, { key: "ALIAS" });
  expect(alias.value === "SHARED", "the value of an alias is the key of its target");
  await atApplication.importEnvironmentVariable(application, {
    overwrite: false,
    vars: [{ name: "IMPORTED", value: "1", scope: "APPLICATION", is_secret: false }],
  });
  const { data: seen } = await atApplication.listApplicationEnvironmentVariable(application);
  expect((seen.results ?? []).some((one) => one.scope === "BUILT_IN"), "built-in variables are listed");
  await api(ApplicationSecretApi).createApplicationSecretAlias(application, key.id, { key: "PAY" });
  await api(ApplicationSecretApi).listApplicationSecrets(application);
  await unifiedVariables(api, project, environment, application);
}

async function unifiedVariables(api: Api, project: string, environment: string, application: string): Promise<void> {
  const variables = api(VariableMainCallsApi);
  const { data: secret } = await variables.createVariable({
    key: "TOKEN",
    value: "correct horse",
    is_secret: true,
    variable_scope: "PROJECT",
    variable_parent_id: project,
  });
  expect(secret.value === null, "the value of a secret is not answered");
  await variables.createVariableAlias(secret.id, { key: "T", alias_scope: "APPLICATION", alias_parent_id: application });
  const { data: other } = await variables.createVariableOverride(secret.id, {
    value: "battery",
    override_scope: "ENVIRONMENT",
    override_parent_id: environment,
  });
  await variables.editVariable(other.id, { key: "TOKEN", description: "Of production" });
  await variables.importEnvironmentVariables(application, "APPLICATION", {
    overwrite: true,
    vars: [{ name: "MANY", value: "1", scope: "ENVIRONMENT", is_secret: false }],
  });
  const { data: secrets } = await variables.listVariables(application, "APPLICATION", true);
  expect((secrets.results ?? []).every((one) => one.is_secret && one.value === null), "only secrets, without values");
  const { data: all } = await variables.listVariables(application, "APPLICATION");
  expect((all.results ?? []).some((one) => one.key === "MANY"), "inherited ones are listed");
  await variables.deleteVariable(other.id);
}

async function deployments(api: Api, environment: string, services: Services): Promise<void> {
  const actions = api(EnvironmentActionsApi);
  const calls = api(EnvironmentMainCallsApi);
  await actions.deployEnvironment(environment);
  const state = await settled(() => calls.getEnvironmentStatus(environment));
  expect(state === "DEPLOYED", `the environment is deployed, and not ${state}`);
  await calls.getEnvironmentStatuses(environment);
  await api(ApplicationLogsApi).listApplicationLog(services.application);
  await actions.deployAllServices(environment, {
    applications: [{ application_id: services.application }],
    containers: [{ id: services.container, image_tag: "1.29" }],
    databases: [services.database],
  });
  await settled(() => calls.getEnvironmentStatus(environment));
  const { data: box } = await api(ContainerMainCallsApi).getContainer(services.container);
  expect(box.tag === "1.29", "the container has the tag that was deployed");
  const { data: answer } = await api(ApplicationActionsApi).rebootApplication(services.application);
  expect((answer as Status).id === services.application, "the id of a status is that of the service");
  await settled(() => api(ApplicationMainCallsApi).getApplicationStatus(services.application));
  await api(ContainerActionsApi).redeployContainer(services.container);
  await settled(() => api(ContainerMainCallsApi).getContainerStatus(services.container));
  await api(DatabaseActionsApi).stopDatabase(services.database);
  await settled(() => api(DatabaseMainCallsApi).getDatabaseStatus(services.database));
  const { data: history } = await api(ApplicationDeploymentHistoryApi).listApplicationDeploymentHistory(services.application);
  expect((history.results ?? []).length >= 3, "the deployments are in the history");
  await actions.rebootServices(environment, { container_ids: [services.container] });
  await settled(() => calls.getEnvironmentStatus(environment));
  await actions.stopSelectedServices(environment, { application_ids: [services.application] });
  await settled(() => calls.getEnvironmentStatus(environment));
  await actions.redeployEnvironment(environment);
  await settled(() => calls.getEnvironmentStatus(environment));
}

async function histories(api: Api, environment: string, services: Services): Promise<void> {
  const { data: past } = await api(EnvironmentDeploymentHistoryApi).listEnvironmentDeploymentHistoryV2(environment, 100);
  expect((past.results ?? []).some((entry) => entry.stages.length > 0), "deployments have stages");
  await api(EnvironmentDeploymentHistoryApi).listEnvironmentDeploymentHistory(environment);
  await api(ContainerDeploymentHistoryApi).listContainerDeploymentHistory(services.container);
  await api(DatabaseDeploymentHistoryApi).listDatabaseDeploymentHistory(services.database);
  const { data: statuses } = await api(EnvironmentMainCallsApi).getEnvironmentStatusesWithStages(environment);
  expect((statuses.stages ?? []).length === 3, "statuses are listed by stage");
}

async function stages(api: Api, environment: string, services: Services): Promise<void> {
  const calls = api(DeploymentStageMainCallsApi);
  const { data: present } = await calls.listEnvironmentDeploymentStage(environment);
  const [first] = present.results ?? [];
  expect(first !== undefined, "a new environment has stages");
  const { data: own } = await calls.getServiceDeploymentStage(services.database);
  expect(own.id === first.id, "the database is in the first stage");
  const { data: made } = await calls.createEnvironmentDeploymentStage(environment, { name: "web" });
  await calls.editDeploymentStage(made.id, { name: "pages", description: "All of them" });
  await calls.moveBeforeDeploymentStage(made.id, first.id);
  const { data: moved } = await calls.moveAfterDeploymentStage(made.id, first.id);
  expect((moved.results ?? [])[1]?.id === made.id, "the stage is the second one");
  await calls.attachServiceToDeploymentStage(made.id, services.container, { is_skipped: false });
  const { data: read } = await calls.getDeploymentStage(made.id);
  expect((read.services ?? [])[0]?.service_id === services.container, "the container is in the new stage");
  await calls.attachServiceToDeploymentStage((present.results ?? [])[2].id, services.container, {});
  await calls.deleteDeploymentStage(made.id);
}

async function restrictions(api: Api, application: string): Promise<void> {
  const calls = api(ApplicationDeploymentRestrictionApi);
  const asked = { mode: "MATCH", type: "PATH", value: "web/" } as const;
  const { data: made } = await calls.createApplicationDeploymentRestriction(application, asked);
  await calls.editApplicationDeploymentRestriction(application, made.id, { ...made, mode: "EXCLUDE" });
  const { data: listed } = await calls.getApplicationDeploymentRestrictions(application);
  expect((listed.results ?? [])[0]?.value === "web/", "the path is answered as it was sent");
  await calls.deleteApplicationDeploymentRestriction(application, made.id);
}

async function chartsAndTheirRepository(api: Api, organizationId: string, environment: string): Promise<void> {
  const repositories = api(HelmRepositoriesApi);
  await repositories.listAvailableHelmRepository();
  const asked = { name: "charts", kind: "HTTPS", url: "https://charts.example.com", skip_tls_verification: false, config: {} };
  const { data: repository } = await repositories.createHelmRepository(organizationId, asked as never);
  await repositories.getHelmRepository(organizationId, repository.id);
  await repositories.editHelmRepository(organizationId, repository.id, { ...asked, description: "Where charts are" } as never);
  await repositories.listHelmRepository(organizationId);
  const { data: charts } = await repositories.getHelmCharts(organizationId, repository.id, "shop");
  expect((charts.results ?? [])[0]?.versions?.[0] === "1.10.0", "the newest version of a chart is the first");

  const source = { helm_repository: { repository: repository.id, chart_name: "shop", chart_version: "1.2.3" } };
  const request = {
    name: "shop", source, auto_deploy: false, arguments: ["--wait"],
    values_override: { set: [["replicas", "2"]], file: { raw: { values: [{ name: "a.yaml", content: "a: 1" }] } } },
    ports: [{ internal_port: 80, external_port: 443, service_name: "web", protocol: "HTTP" }],
  };
  const helms = api(HelmsApi);
  const { data: values } = await helms.createHelmDefaultValues(environment, { source } as never);
  expect(String(values).includes("replicas: 1"), "the values of a chart are a text");
  const { data: made } = await helms.createHelm(environment, request as never);
  const calls = api(HelmMainCallsApi);
  const { data: read } = await calls.getHelm(made.id);
  const shown = (read.source as { repository: { chart_name: string } }).repository;
  expect(shown.chart_name === "shop", "a service shows its chart under the key of the answer");
  await calls.editHelm(made.id, { ...request, description: "A chart" } as never);
  await helms.listHelms(environment);
  await helms.getEnvironmentHelmStatus(environment);
  await helms.getDefaultHelmAdvancedSettings();
  const configuration = api(HelmConfigurationApi);
  const { data: settings } = await configuration.getHelmAdvancedSettings(made.id);
  await configuration.editHelmAdvancedSettings(made.id, settings);
  const actions = api(HelmActionsApi);
  const status = () => calls.getHelmStatus(made.id);
  await actions.deployHelm(made.id, "DIFF", {});
  await settled(status);
  await actions.deployHelm(made.id, undefined, { chart_version: "1.10.0" });
  expect((await settled(status)) === "DEPLOYED", "the chart is deployed");
  await actions.redeployHelm(made.id);
  await settled(status);
  await calls.listHelmLinks(made.id);
  await calls.getHelmKubernetesServices(made.id);
  await actions.stopHelm(made.id);
  expect((await settled(status)) === "STOPPED", "the chart is stopped");
  await api(HelmDeploymentHistoryApi).listHelmDeploymentHistory(made.id);
  await api(HelmDeploymentHistoryApi).listHelmDeploymentHistoryV2(made.id);
  const restrictions = api(HelmDeploymentRestrictionApi);
  const { data: restriction } = await restrictions.createHelmDeploymentRestriction(made.id, { mode: "MATCH", type: "PATH", value: "charts" });
  await restrictions.getHelmDeploymentRestrictions(made.id);
  await restrictions.deleteHelmDeploymentRestriction(made.id, restriction.id);
  const { data: copy } = await helms.cloneHelm(made.id, { name: "copy", environment_id: environment });
  await calls.deleteHelm(copy.id);
  await actions.uninstallHelm(made.id, {});
  await settled(status);
  await calls.deleteHelm(made.id);
  await gone(status);
  await gone(() => calls.getHelmStatus(copy.id));
  await repositories.deleteHelmRepository(organizationId, repository.id);
}

async function webhooksAndTokens(api: Api, organizationId: string): Promise<void> {
  const webhooks = api(OrganizationWebhookApi);
  const { data: webhook } = await webhooks.createOrganizationWebhook(organizationId, {
    kind: "STANDARD",
    target_url: "https://hooks.example/deployments",
    events: ["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCESSFUL"],
  });
  await webhooks.getOrganizationWebhook(organizationId, webhook.id);
  await webhooks.editOrganizationWebhook(organizationId, webhook.id, {
    kind: "STANDARD",
    target_url: "https://hooks.example/deployments",
    events: ["DEPLOYMENT_FAILURE"],
    enabled: true,
  });
  await webhooks.listOrganizationWebHooks(organizationId);
  await webhooks.listWebhookEvent(organizationId, webhook.id);
  await webhooks.deleteOrganizationWebhook(organizationId, webhook.id);
  const tokens = api(OrganizationApiTokenApi);
  const { data: token } = await tokens.createOrganizationApiToken(organizationId, { name: "robot", role_id: null } as never);
  expect(Boolean(token.token), "a new token is shown once");
  await tokens.listOrganizationApiTokens(organizationId);
  await tokens.deleteOrganizationApiToken(organizationId, token.id);
}

async function deletions(api: Api, project: string, environment: string, services: Services): Promise<void> {
  await api(ApplicationMainCallsApi).deleteApplication(services.application);
  await api(EnvironmentActionsApi).deleteSelectedServices(environment, false, { container_ids: [services.container] });
  await gone(() => api(ApplicationMainCallsApi).getApplicationStatus(services.application));
  await api(EnvironmentMainCallsApi).deleteEnvironment(environment);
  await gone(() => api(EnvironmentMainCallsApi).getEnvironmentStatus(environment));
  await api(ProjectMainCallsApi).deleteProject(project);
  await gone(() => api(ProjectMainCallsApi).getProject(project));
}

async function gone(read: () => Promise<unknown>): Promise<void> {
  for (let tries = 0; tries < 600; tries += 1) {
    try {
      await read();
    } catch (error) {
      expect(String(error).includes(" 404 "), String(error));
      return;
    }
    await new Promise((resume) => setTimeout(resume, 100));
  }
  throw new Error("it is never gone");
}
