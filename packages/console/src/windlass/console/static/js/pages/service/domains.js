// The domains of a service: which records each needs, its certificate, and a diagnosis as the name is now.

import { api } from "../../api.js";
import { h, prose } from "../../dom.js";
import { ago, exactTime, duration } from "../../format.js";
import { button, codeBlock, confirm, copyButton, dialog, empty, errorText, facts, field, menu, outside, panel, say, showError, steps } from "../../parts.js";
import { now } from "../../clock.js";
import { stateIcon } from "../../states.js";
import { words } from "../../words.js";
import { network } from "../../words_of_network.js";

const text = network.domains;
const EVERY = 10000; // A new domain is looked at every 20 seconds.
const SOON = 21 * 86400000; // An uploaded certificate is warned of before its end.

export async function load(state) {
  const content = { rows: [], checks: {}, certificates: {} };
  const refresh = async () => (content.rows = await api.all(`${state.path}/customDomain`));
  await refresh();
  return Object.assign(content, { read: refresh, refreshing: { refresh, every: EVERY } });
}

export function render(state, place) {
  const { rows } = state.content;
  const adding = (options) => button(text.add, () => add(state, place), { main: true, icon: "plus", needs: ["POST", `${state.path}/customDomain`], ...options });
  if (!rows.length) return [own(state), empty(text.none, adding(), `windlass domain create --${state.kind} ${state.service.name} --domain shop.example.com --generate-certificate`, text.withCommand), steps(text.steps)];
  return [h("div", { class: "tools" }, adding()), rows.map((row) => card(state, place, row)), rows.some(({ state: word }) => word === "UNPROVED") && h("p", { class: "muted fine" }, text.looks), own(state)];
}

export const hasMainAction = true;

// The names that each service has without a domain.
function own({ links, content }) {
  const named = links.filter(({ url }) => !content.rows.some(({ domain }) => url.includes(`//${domain}`)));
  return named.length > 0 && panel(text.given, h("ul", { class: "plain addresses" }, named.map(({ url, remark }) => h("li", {}, outside(url, url), copyButton(url), remark && h("p", { class: "muted fine" }, remark)))));
}

/** The kind and the words of a domain's state. */
export function stateOfDomain(row, at = now()) {
  const { state, certificate_state: certificate, generate_certificate: isOrdered } = row;
  if (state === "UNPROVED") return ["wait", text.states.dns];
  if (row.proof_lost_at) return ["warn", text.states.lost];
  if (certificate === "FAILED") return ["bad", text.states.failed];
  if (certificate === "LIVE") return new Date(row.certificate_expires_at) - at < SOON && (row.certificate_origin === "UPLOADED" || row.problem) ? ["warn", text.states.ending] : ["ok", text.states.live];
  if (certificate === "WAITING" || certificate === "ORDERED") return ["busy", text.states[certificate]];
  return isOrdered ? ["busy", text.states.WAITING] : ["ok", text.states.plain];
}

function card(state, place, row) {
  const [kind, word] = stateOfDomain(row);
  const base = `${state.path}/customDomain/${row.id}`;
  const url = `${row.certificate_state === "LIVE" ? "https" : "http"}://${row.domain}`;
  const isWild = row.domain.startsWith("*.");
  const needs = (method, part = "") => [method, `${base}${part}`];
  return h("section", { class: "panel domain", key: row.id },
    h("div", { class: "head" },
      h("div", {},
        h("h2", {}, row.state === "PROVED" && !isWild ? outside(url, row.domain) : row.domain, copyButton(row.domain)),
        h("p", { class: "facts-line" }, h("span", { class: `state ${kind}` }, stateIcon(kind), word), certificateOf(row), row.use_cdn && h("span", { class: "muted" }, text.behindCdn), row.redirect_to && h("span", { class: "muted" }, text.redirects(row.redirect_to)))),
      h("div", { class: "actions" },
        button(text.check, () => check(state, place, row), { icon: "search", key: "check", needs: needs("GET", "/check") }),
        menu(text.actionsOf(row.domain), [
          button(text.edit, () => edit(state, place, row), { plain: true, needs: needs("PATCH") }),
          row.certificate_state === "LIVE" && button(text.showCertificate, () => showCertificate(base, row), { plain: true }),
          row.state === "PROVED" && button(text.upload, () => upload(state, place, row), { plain: true, needs: needs("POST", "/uploadCertificate") }),
          row.certificate_origin === "UPLOADED" && button(text.removeUploaded, () => removeUploaded(state, place, row), { plain: true, needs: needs("POST", "/removeCertificate") }),
          button(words.remove.button, () => remove(state, place, row), { plain: true, danger: true, icon: "trash-2", needs: needs("DELETE") }),
        ]))),
    row.problem && row.state === "PROVED" && h("p", { class: kind === "bad" ? "trouble" : null }, prose(row.problem)),
    row.next_try_at && kind !== "ok" && row.state === "PROVED" && h("p", { class: "muted fine" }, text.nextTry, " ", ago(row.next_try_at)),
    row.state === "UNPROVED" && records(row, state.content.checks[row.id]),
    diagnosis(state.content.checks[row.id]));
}

function certificateOf({ certificate_state: certificate, certificate_origin: origin, certificate_expires_at: ends, generate_certificate: isOrdered, state }) {
  if (certificate === "LIVE") return h("span", { class: "muted" }, origin === "UPLOADED" ? text.uploaded : text.byAuthority, ", ", text.until, " ", ago(ends));
  return state === "PROVED" && !isOrdered ? h("span", { class: "muted" }, text.noCertificate) : null;
}

// The records to make. An apex name can have no CNAME, and a CDN hides it.
function records({ domain, validation_domain: target, challenge_name: name, challenge_value: value, use_cdn: hasCdn }, checked) {
  const isWild = domain.startsWith("*."), isApex = !isWild && domain.split(".").length === 2;
  const alias = ["CNAME", domain, target], proof = ["TXT", name, value];
  const here = checked?.found?.expected_addresses || [];
  const address = here.length ? here.map((one) => [one.includes(":") ? "AAAA" : "A", domain, one]) : [["A", domain, ""]];
  const wanted = hasCdn ? [proof] : isWild ? [alias, proof] : isApex ? [...address, proof] : [alias];
  return h("div", {},
    h("p", {}, hasCdn ? text.makeForCdn : text.make(wanted.length)),
    recordTable(wanted),
    !hasCdn && !isWild && h("details", {}, h("summary", {}, isApex ? text.orAlias : text.orText), h("p", { class: "help" }, isApex ? text.aliasHelp : text.textHelp), recordTable(isApex ? [alias] : [...address, proof])));
}

const recordTable = (rows) => h("div", { class: "table-box" }, h("table", { class: "rows records" },
  h("thead", {}, h("tr", {}, [text.type, text.name, text.value].map((heading) => h("th", { scope: "col" }, heading)))),
  h("tbody", {}, rows.map(([type, name, value]) => h("tr", {},
    h("td", {}, h("strong", {}, type)), h("td", { class: "titled", "data-title": text.name }, h("code", {}, name), copyButton(name)), h("td", { class: "titled", "data-title": text.value }, value ? [h("code", {}, value), copyButton(value)] : h("span", { class: "muted" }, text.machine)))))));

async function check(state, place, { id }) {
  const { checks } = state.content;
  checks[id] = { ...checks[id], isReading: true };
  place.update();
  try {
    checks[id] = { found: await api.get(`${state.path}/customDomain/${id}/check`), at: new Date() };
  } catch (error) {
    checks[id] = { error };
  }
  await state.content.read().catch(() => {}); // The state of before stays.
  place.update();
}

// What is well comes after what is not.
function diagnosis(checked) {
  if (!checked) return null;
  if (checked.isReading && !checked.found) return h("p", { class: "muted", role: "status" }, text.checking);
  if (checked.error) return h("p", { class: "trouble", role: "alert" }, prose(errorText(checked.error)));
  return h("div", { class: "diagnosis", role: "status" }, h("h3", {}, text.diagnosis, " ", h("span", { class: "muted fine" }, ago(checked.at.toISOString()))), findingsOf(checked.found), details(checked.found));
}

function findingsOf({ findings, authority_message: said }) {
  const isTold = ({ message }) => !said || !message.includes(said);
  const ordered = findings.filter(isTold).sort((one, other) => Number(one.good) - Number(other.good));
  return [
    h("ul", { class: "plain findings" }, ordered.map(({ good, message }) => h("li", {}, h("span", { class: `state ${good ? "ok" : "bad"}` }, stateIcon(good ? "ok" : "bad"), h("span", { class: "unseen" }, good ? text.good : text.bad)), h("span", {}, prose(message))))),
    said && h("blockquote", {}, h("p", { class: "muted fine" }, text.authority), h("p", {}, said)),
  ];
}

function details({ resolvers, caa, expected_addresses: expected }) {
  return h("details", {}, h("summary", {}, text.details),
    facts([[text.expected, expected.join(", ") || text.nothing], [text.caa, caa.join("; ") || text.anyAuthority]]),
    h("div", { class: "table-box" }, h("table", { class: "rows" },
      h("thead", {}, h("tr", {}, [text.server, text.addresses, text.aliases, text.texts].map((heading) => h("th", { scope: "col" }, heading)))),
      h("tbody", {}, resolvers.map((one) => h("tr", {}, h("td", {}, h("code", {}, one.server)), one.problem ? h("td", { colspan: 3 }, one.problem)
        : [one.addresses, one.aliases, one.texts].map((values, index) => h("td", { class: "titled", "data-title": [text.addresses, text.aliases, text.texts][index] }, values.join(", ") || "–"))))))));
}

// The choices of a domain. `others`: the names to which it may redirect its visitors.
function choices({ generate_certificate: isOrdered = true, use_cdn: hasCdn = false, redirect_to: target = "" } = {}, others = []) {
  const names = [...new Set([...others, target].filter(Boolean))];
  const redirect = h("select", {}, h("option", { value: "" }, text.redirectNowhere), names.map((name) => h("option", { value: name, selected: name === target }, name)));
  const certificate = h("input", { type: "checkbox", role: "switch", checked: isOrdered });
  const cdn = h("input", { type: "checkbox", role: "switch", checked: hasCdn });
  return {
    node: h("div", {}, field(text.certificate, certificate, text.certificateHelp, { isSwitch: true, name: "generate_certificate" }), field(text.cdn, cdn, text.cdnHelp, { isSwitch: true, name: "use_cdn" }), names.length > 0 && field(text.redirect, redirect, text.redirectHelp, { name: "redirect_to" })),
    read: () => ({ generate_certificate: certificate.checked, use_cdn: cdn.checked, ...(names.length > 0 && { redirect_to: redirect.value }) }),
  };
}

const targetsFor = ({ content }, own) => content.rows.filter((row) => row.id !== own && !row.redirect_to && !row.domain.startsWith("*.")).map(({ domain }) => domain);

async function add(state, place) {
  const name = h("input", { autocomplete: "off", spellcheck: "false", autocapitalize: "off", placeholder: "shop.example.com", autofocus: true });
  const chosen = choices({}, targetsFor(state));
  const found = h("div", { class: "diagnosis", role: "status" });
  const look = async () => {
    const { use_cdn: hasCdn } = chosen.read();
    const checked = await api.post(`${state.path}/checkDomain`, { domain: nameIn(name), use_cdn: hasCdn });
    found.replaceChildren(h("h3", {}, text.diagnosis), ...findingsOf(checked).filter(Boolean));
  };
  const made = await dialog(text.add, (finish) => [
    field(text.domain, name, text.domainHelp, { name: "domain" }), chosen.node,
    h("div", {}, button(text.checkFirst, look, { small: true, icon: "search", needs: ["POST", `${state.path}/checkDomain`] })), found,
    h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(text.add, sending(finish, () => api.post(`${state.path}/customDomain`, { domain: nameIn(name), ...chosen.read() })), { main: true })),
  ], { wide: true });
  if (!made) return;
  await state.content.read();
  place.update();
  await check(state, place, made);
}

// People paste addresses.
const nameIn = ({ value }) => value.trim().replace(/^https?:\/\//i, "").replace(/\/.*$/, "") || undefined;

const sending = (finish, send) => async () => {
  try {
    finish((await send()) || true);
  } catch (error) {
    showError(error);
  }
};

async function edit(state, place, row) {
  const path = `${state.path}/customDomain/${row.id}`;
  const { tag } = await api.tagged(path);
  const chosen = choices(row, targetsFor(state, row.id));
  const saved = await dialog(row.domain, (finish) => [chosen.node, h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(words.save, sending(finish, () => api.patch(path, chosen.read(), tag)), { main: true }))]);
  if (saved) await again(state, place, words.settings.saved);
}

async function again(state, place, told) {
  say(told);
  await state.content.read();
  place.update();
}

async function upload(state, place, row) {
  const area = (placeholder) => h("textarea", { rows: 6, class: "code", spellcheck: "false", placeholder });
  const chain = area("-----BEGIN CERTIFICATE-----"), key = area("-----BEGIN PRIVATE KEY-----");
  const send = () => api.post(`${state.path}/customDomain/${row.id}/uploadCertificate`, { chain: chain.value, key: key.value });
  const sent = await dialog(text.uploadTitle(row.domain), (finish) => [
    h("p", {}, text.uploadWill), part(text.chain, chain, text.chainHelp, "chain", ".pem,.crt,.cer"), part(text.key, key, text.keyHelp, "key", ".pem,.key"),
    h("div", { class: "dialog-actions" }, button(words.cancel, () => finish()), button(text.upload, sending(finish, send), { main: true })),
  ], { wide: true });
  if (sent) await again(state, place, text.uploadDone(row.domain));
}

// A text that is pasted, or read from a file.
function part(label, area, help, name, accept) {
  const file = h("input", { type: "file", accept, "aria-label": text.fileOf(label), onchange: async ({ target }) => target.files[0] && ((area.value = await target.files[0].text()), area.dispatchEvent(new Event("input", { bubbles: true }))) });
  const node = field(label, area, help, { name });
  node.append(file);
  return node;
}

async function removeUploaded(state, place, row) {
  const will = row.generate_certificate ? text.removeUploadedWill : text.removeUploadedForGood;
  if (!(await confirm(text.removeUploaded, will, { action: text.removeUploaded, danger: true }))) return;
  await api.post(`${state.path}/customDomain/${row.id}/removeCertificate`);
  await again(state, place, text.uploadedRemoved(row.domain));
}

async function showCertificate(base, { domain }) {
  const found = await api.get(`${base}/certificate`);
  await dialog(text.certificateOf(domain), (finish) => [
    facts([[text.issuer, found.issuer], [text.names, found.names.join(", ")], [text.ends, found.expires_at && [exactTime(found.expires_at), h("span", { class: "muted" }, ` (${duration(new Date(found.expires_at) - now(), true)})`)]], [text.stored, found.stored_at && exactTime(found.stored_at)]]),
    h("h3", {}, text.fingerprint), codeBlock(found.fingerprint),
    h("div", { class: "dialog-actions" }, button(words.close, () => finish(), { main: true })),
  ], { wide: true });
}

async function remove(state, place, row) {
  if (!(await confirm(words.remove.title(row.domain), text.removeWill, { action: words.remove.button, danger: true, name: row.state === "PROVED" && row.domain }))) return;
  await api.delete(`${state.path}/customDomain/${row.id}`);
  await again(state, place, words.remove.done(row.domain));
}
