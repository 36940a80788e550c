// The variables of a service, with where each value comes from.

import * as variables from "../variables.js";

export const load = ({ path, environment, project, service }, place) =>
  variables.read(place, { path, name: service.name, above: [environment && `/environment/${environment.id}`, project && `/project/${project.id}`].filter(Boolean), service });

export const watch = ({ content }, place) => variables.watch(content, place);

export const render = ({ content }, place) => variables.draw(content, place);
