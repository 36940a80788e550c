// Texts of the pages Domains and Requests of a service. They are loaded with the pages that show them.

export const network = {
  overview: {
    health: "Health", change: "Change", events: "Recent events", it: "it", allEvents: "All activity", toDomains: "Add a domain of your own", toPort: (port) => `to port ${port}`, scales: (least, most) => `from ${least} to ${most < 0 ? "as many as needed" : most} with the load`,
    readings: { masterCredentials: { title: "Connect", about: "Services of this environment get its address and password as variables. A program of your own needs them by hand, or the command below opens a client that is logged in.", show: "Show host, login and password", command: "windlass database client" } },
    checks: { none: "an open port is enough", http: (path, port) => `GET ${path}${port ? ` on port ${port}` : ""}`, tcp: (port) => `port ${port} is open`, exec: "command", grpc: (port) => `gRPC on port ${port}` },
  },
  requests: {
    title: "Requests", off: "See each request to this service: its path, status, duration and client. Nothing is recorded yet.", turnOn: "Record requests", turnOff: "Stop recording", turnedOn: "Requests are recorded from now on.", turnedOff: "No further requests are recorded.",
    withCommand: "Or with the command line:", isOff: "No further requests are recorded. These are from before.", about: "Paths are recorded without their query, which may contain a secret. The oldest requests make room for new ones.",
    none: "Recording. No request has come yet: open the address.", noPort: "Requests are those that visitors send over HTTP. This service has no public HTTP port.", toPorts: "Add a public port", noMatch: "No recorded request matches.",
    steps: [["Record", "It takes effect at once, without a deployment, and costs little."], ["Watch", "New requests appear as they end. Filter by status, path or client."], ["Find the cause", "A request opens with its id, which the log of your program can print, too (X-Request-Id)."]],
    byStatus: "By status", all: "All", search: "Search path, client or browser", resume: (count) => `Follow${count ? ` (${count} new)` : ""}`, ofAll: (shown, all) => `${shown} of ${all}`, left: "499: the client left before the answer",
    time: "Time", method: "Method", path: "Path", status: "Status", took: "Duration", size: "Size", client: "Client", host: "Host", agent: "Browser", referer: "Came from", request: "Request id", trace: "Trace id", open: (method, path) => `${method} ${path}`,
  },
  domains: {
    add: "Add a domain", none: "Reach this service under a name of your own, such as shop.example.com, with HTTPS.", withCommand: "Or with the command line:", given: "Addresses from Windlass",
    steps: [["Name it", "shop.example.com, example.com, or *.example.com for all names below."], ["Make a record", "At the provider of your domain. It proves the name, and leads visitors here."], ["Wait a moment", "Windlass looks every 20 seconds, then gets a certificate and renews it."]],
    states: { dns: "waiting for DNS", lost: "the record is gone", failed: "certificate failed", ending: "certificate ends soon", live: "live with HTTPS", plain: "live over HTTP", WAITING: "certificate follows", ORDERED: "certificate is ordered" },
    byAuthority: "certificate renewed by Windlass", uploaded: "uploaded certificate", until: "ends", noCertificate: "no certificate of Windlass", behindCdn: "behind a CDN", nextTry: "Next try:",
    check: "Check now", checking: "Asking name servers, and opening the name as a visitor does …", diagnosis: "Diagnosis", good: "right:", bad: "wrong:", authority: "The certificate authority says", details: "What each name server answers", actionsOf: (name) => `Actions of ${name}`,
    make: (count) => (count === 1 ? "Make this record at the provider of your domain:" : "Make these records at the provider of your domain:"), makeForCdn: "Make this record at the provider of your domain. It proves the name; the CDN stays in front:",
    orText: "No CNAME is possible there, or a proxy is in front", textHelp: "These records do the same: the second one proves the name.", orAlias: "Your provider offers CNAME flattening or ALIAS records", aliasHelp: "Then this one record is enough.", looks: "Windlass looks every 20 seconds at first, then more rarely. “Check now” looks at once.",
    type: "Type", name: "Name", value: "Value", machine: "the address of this machine", server: "Name server", addresses: "Addresses", aliases: "Stands for", texts: "Texts", expected: "It should lead to", nothing: "nothing known", caa: "Authorities (CAA)", anyAuthority: "any may issue for it",
    domain: "Domain", domainHelp: "Such as shop.example.com, or *.example.com for all names with one more label.", certificate: "HTTPS certificate", certificateHelp: "Windlass gets one once the name is proved, and renews it. Turn it off if a CDN or proxy in front ends TLS.", cdn: "A CDN is in front", cdnHelp: "The name then resolves to addresses of the CDN, and a TXT record proves it.", checkFirst: "Check the name first",
    redirect: "Redirect visitors to", redirectNowhere: "nowhere: the service answers here", redirectHelp: "Such as from www.example.com to example.com. Path and query stay.", redirects: (name) => `redirects to ${name}`,
    edit: "Change", showCertificate: "Show the certificate", upload: "Upload a certificate", uploadTitle: (name) => `A certificate of your own for ${name}`, uploadWill: "It is checked, and served at once in place of the present one. Windlass does not renew it, and warns you 21 days before its end.",
    chain: "Certificate", chainHelp: "In PEM: that of the name first, then those that sign it.", key: "Private key", keyHelp: "In PEM, without a password. It is stored encrypted, and never shown again.", fileOf: (label) => `${label} from a file`, uploadDone: (name) => `The certificate of ${name} is served from now on.`,
    removeUploaded: "Remove the uploaded certificate", removeUploadedWill: "Windlass gets one from the authority. The uploaded one is served until that is there.", removeUploadedForGood: "From then on, the name is served over HTTP only.", uploadedRemoved: (name) => `The uploaded certificate of ${name} is removed.`,
    certificateOf: (name) => `Certificate of ${name}`, issuer: "Issued by", names: "Names", ends: "Ends", stored: "Served since", fingerprint: "Fingerprint (SHA-256)", removeWill: "The service no longer answers under this name, and its certificate is deleted. The record at your provider stays.",
  },
};
