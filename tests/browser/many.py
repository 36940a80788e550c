"""Many of what pages show, without a server that has them."""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, Route

FAST_LOG: Final = """
const real = window.fetch;
window.fetch = (url, options) => {
  if (!String(url).includes('/log?follow')) return real(url, options);
  const encoder = new TextEncoder();
  let began = performance.now();
  let timer;
  window.__sent = 0;
  const body = new ReadableStream({
    start(controller) {
      timer = setInterval(() => {
        const isLater = window.__sent >= FIRST;
        if (!isLater) began = performance.now();
        const wanted = isLater ? FIRST + Math.floor((performance.now() - began) * RATE) : FIRST;
        let text = '';
        for (let most = 2000; window.__sent < wanted && most; most--) {
          const number = ++window.__sent;
          const line = { id: `l${number}`, created_at: new Date().toISOString(),
            pod_name: `shop-1-${number % 3}`,
            message: `line ${number} of a program that writes much, with an error now and then` };
          text += `id: l${number}\\ndata: ${JSON.stringify(line)}\\n\\n`;
        }
        if (text) controller.enqueue(encoder.encode(text));
      }, 20);
    },
    cancel() { clearInterval(timer); },
  });
  return Promise.resolve(new Response(body, { headers: { 'content-type': 'text/event-stream' } }));
};
"""
"""Follows a log of FIRST lines that gets RATE more in each millisecond."""

MANY_DEPLOYMENTS: Final = """
const real = window.fetch;
const STATES = ['QUEUED', 'BUILDING', 'DEPLOYING', 'RUNNING', 'RUNNING', 'RUNNING'];
window.__events = 0;
const stateOf = (index) => STATES[Math.floor(index / 7 + window.__events / 4) % STATES.length];
const idOf = (index) => `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`;
const serviceOf = (index) => {
  return { ...SERVICE, id: idOf(index), name: `service-${index}`, state: stateOf(index) };
};
const all = (make) => Array.from({ length: COUNT }, (_, index) => make(index));
window.fetch = (url, options) => {
  const answer = (body, type) => Promise.resolve(new Response(body, { headers: { 'content-type': type } }));
  const services = () => JSON.stringify({ results: all(serviceOf) });
  if (String(url).includes('/services?')) return answer(services(), 'application/json');
  if (/\\/metrics\\??$/.test(url)) return answer('{"times": [], "instances": []}', 'application/json');
  if (!/\\/(status|events)\\/stream$/.test(url)) return real(url, options);
  let timer;
  const encoder = new TextEncoder();
  const body = new ReadableStream({
    start(controller) {
      timer = setInterval(() => {
        window.__events++;
        const applications = all((index) => ({ ...serviceOf(index), status_details: {} }));
        controller.enqueue(encoder.encode(`data: ${JSON.stringify({ applications })}\\n\\n`));
      }, 100);
    },
    cancel() { clearInterval(timer); },
  });
  return answer(body, 'text/event-stream');
};
"""
"""An environment of COUNT services that are deployed: ten times a second, some of them have new states."""


def wait_until(page: Page, expression: str) -> None:
    """The policy of the page refuses what `wait_for_function` would run."""
    while not page.evaluate(expression):
        page.wait_for_timeout(100)


def many_deployments(environment: str, count: int) -> str:
    return MANY_DEPLOYMENTS.replace("COUNT", str(count)).replace(
        "SERVICE,", f"{json.dumps(_service(0, environment))},"
    )


def fast_log(rate: float, first: int = 0) -> str:
    return FAST_LOG.replace("RATE", str(rate)).replace("FIRST", str(first))


def answer_with_services(page: Page, environment: str, count: int) -> None:
    """Answers the page's question for services with so many of one environment."""

    def answer(route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        number, size = int(query.get("page", ["1"])[0]), int(query.get("page_size", ["100"])[0])
        first = (number - 1) * size
        rows = [_service(index, environment) for index in range(first, min(count, first + size))]
        pagination = {
            "page": number,
            "page_size": size,
            "total_count": count,
            "total_pages": -(-count // size),
        }
        route.fulfill(json={"results": rows, "pagination": pagination})

    page.route("**/services?*", answer)
    page.route("**/metrics*", lambda route: route.fulfill(json={"times": [], "instances": []}))


def _service(index: int, environment: str) -> dict[str, object]:
    state = {1: "STOPPED", 2: "ERROR", 3: "BUILDING"}.get(index % 50, "RUNNING")
    return {
        "id": f"00000000-0000-4000-8000-{index:012d}",
        "name": f"service-{index}",
        "state": state,
        "url": f"http://service-{index}.localhost:8081",
        "message": "",
        "version": "v1",
        "instances": 1,
        "running_instances": 1,
        "ready_instances": 1,
        "service_type": "APPLICATION",
        "project_id": "00000000-0000-4000-8000-000000000000",
        "project_name": "Many",
        "environment_id": environment,
        "environment_name": "production",
        "last_deployment_date": "2026-01-31T09:05:00.007Z",
    }
