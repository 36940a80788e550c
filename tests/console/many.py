"""Many of what pages show, without a server that has them."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, Route

FAST_LOG: Final = """
const real = window.fetch;
window.fetch = (url, options) => {
  if (!String(url).includes('/log?follow')) return real(url, options);
  const encoder = new TextEncoder();
  const began = performance.now();
  let timer;
  window.__sent = 0;
  const body = new ReadableStream({
    start(controller) {
      timer = setInterval(() => {
        const wanted = Math.floor((performance.now() - began) * RATE);
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
"""Follows a log that gets RATE lines in each millisecond."""


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
