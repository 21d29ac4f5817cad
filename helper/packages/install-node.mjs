// Installs Node packages into a folder, for one sandbox of sbxctl's: install-node.mjs REQUEST
//
// The same as install-python.py, and the same events, with npm instead of pip; see there. The request has target, which
// becomes a node_modules, index (the URL of a registry), requirements (NAME or NAME@RANGE), bytes, seconds and most. No
// script of a package runs. It has to run on Node 18.

import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { relative, resolve } from "node:path";

const OUTPUT_MAX = 16 << 20;
// All of the environment that npm gets: how to find programs and the registry, and nothing that sets it otherwise.
const ENVIRONMENT = /^(PATH|HOME|LANG|TZ|SSL_CERT_.*|NODE_EXTRA_CA_CERTS|(HTTPS?|ALL|NO)_PROXY)$/i;

class Failure extends Error {
    constructor(kind, message, hint = "", thePackage = "") {
        super(message);
        this.members = { kind, package: thePackage, message, hint };
    }
}

const tell = (event, members = {}) => console.log(JSON.stringify({ event, ...members }));
const progress = (phase, current, total, name = "") => tell("progress", { phase, current, total, name });

// ---- npm

function environment(work) {
    const kept = Object.entries(process.env).filter(([name]) => ENVIRONMENT.test(name));
    return { ...Object.fromEntries(kept), TMPDIR: work };
}

// Calls npm in the folder `work`. Resolves with what it printed, parsed, and whether it succeeded.
function npm(request, work, deadline, ...words) {
    const settings = {
        registry: request.index, cache: `${work}/cache`, userconfig: `${work}/none`, globalconfig: `${work}/neither`,
        "fetch-retries": 0, "fetch-timeout": 5000, "ignore-scripts": true, audit: false, fund: false, omit: "dev",
        "update-notifier": false, progress: false, json: true, "install-links": false, loglevel: "error",
    };
    const options = Object.entries(settings).map(([name, value]) => `--${name}=${value}`);
    // The limit on the size of a file is the shell's to set; it counts in blocks of 512 bytes.
    const limited = ["-c", 'ulimit -f "$0" && exec "$@"', String(Math.ceil(request.bytes / 512)), "npm"];
    const how = {
        cwd: work, env: environment(work), timeout: Math.max(1, deadline - Date.now()), killSignal: "SIGKILL",
        maxBuffer: OUTPUT_MAX,
    };
    return new Promise((resolve) => {
        execFile("sh", [...limited, ...words, ...options], how, (error, stdout, stderr) => {
            resolve({ error, stderr, answer: parse(stdout) });
        });
    });
}

function parse(text) {
    try {
        return JSON.parse(text);
    } catch {
        return {};
    }
}

// ---- why it failed

const DOWN = /^(ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|E5..|FETCH_ERROR|ENOTCACHED)$/;
const UNTRUSTED = /^(SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|CERT_|UNABLE_TO_(GET_ISSUER|VERIFY)|ERR_TLS_CERT)/;
const FULL = /^(ENOSPC|EFBIG|EDQUOT|ERR_STRING_TOO_LONG|ENOMEM)$/;

function explain(request, { error, stderr, answer }) {
    const { code = "", summary = "", detail = "" } = answer.error ?? {};
    const said = `${summary} ${detail} ${stderr}`;
    if (error.code === 127)
        return new Failure("no-installer", "There is no npm here, so no package can be installed.",
            "Ask the administrator to install the Debian package npm, or use an image that has npm.");
    // npm takes the signal for a file that is too large for the end of its own process.
    if (FULL.test(code) || error.signal === "SIGXFSZ" || /\bE(NOSPC|FBIG|DQUOT)\b|process terminated/.test(said))
        return new Failure("too-large", "The packages, or a file of them, are larger than is allowed here.",
            "Ask for fewer or smaller packages; the administrator sets LayerSize= in [Packages].");
    if (DOWN.test(code) || error.killed || /timed? ?out/i.test(said)) {
        const how = error.killed || /timed? ?out/i.test(`${code} ${said}`) ? "did not answer in time" : "cannot be reached";
        return new Failure("index-down", `The package index ${request.index} ${how}.`,
            "Try again later; if it lasts, tell the administrator, who sets NodeIndex= in [Packages].");
    }
    if (UNTRUSTED.test(code))
        return new Failure("index-down", `The package index ${request.index} has a certificate that is not trusted here.`,
            "The administrator has this machine trust who issued it, with update-ca-certificates.");
    const name = /'((?:@[^/' ]+\/)?[^@' ]+@[^']*)'/.exec(said)?.[1] ?? /for (\S+@\S+?)\.?(\s|$)/.exec(said)?.[1] ?? "";
    switch (code) {
    case "E404":
        return new Failure("not-found", `The index has no package ${name || "of that name"}.`,
            "Look at the spelling of its name.", name);
    case "ETARGET":
        return new Failure("not-found", `The index has no such version of ${name || "a package"}.`,
            "Ask for another version.", name);
    case "EINTEGRITY":
        return new Failure("hash", "A package is not what its hash says, so it was not installed.",
            "Look into why it was changed, and tell the administrator of it.");
    case "ERESOLVE":
        return new Failure("conflict", "What these packages need cannot be had together.",
            "Leave out versions, or ask for others.");
    }
    const why = (summary || stderr || `it ended with status ${error.code ?? error.signal}`).split("\n")[0];
    return new Failure("other", `npm failed: ${why.slice(0, 300).replace(/\.+$/, "")}.`,
        "Ask for other packages or versions.");
}

// ---- the steps

// What the lock file of npm says was resolved.
function resolved(work) {
    const { packages = {} } = parse(readFileSync(`${work}/package-lock.json`, "utf8"));
    const found = Object.entries(packages).filter(([path]) => path !== "");
    // It has a name besides where the folder is called otherwise: what needs it may call it what it likes.
    return found.map(([path, { name = "", version = "", integrity = "" }]) => ({
        name: name || path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length), version, hash: integrity,
    }));
}

// The programs of packages, which npm makes links of: a layer has none, so a line of shell stands for each.
function replaceLinks(folder) {
    for (const name of existsSync(folder) ? readdirSync(folder) : []) {
        const path = `${folder}/${name}`;
        const target = relative(folder, resolve(folder, readlinkSync(path)));
        rmSync(path);
        const quoted = `'/${target.replaceAll("'", "'\\''")}'`;
        writeFileSync(path, `#!/bin/sh\nexec "\${0%/*}"${quoted} "$@"\n`, { mode: 0o755 });
    }
}

async function install(request) {
    const work = `${request.target}.work`;
    const deadline = Date.now() + request.seconds * 1000;
    if (request.index.startsWith("/"))
        throw new Failure("other", "Node packages come from a registry only, not from a directory.",
            "Ask the administrator to set NodeIndex= in [Packages] to an address.");
    mkdirSync(work, { recursive: true });
    writeFileSync(`${work}/package.json`, "{}\n");

    progress("resolve", 0, 0);
    const asked = await npm(request, work, deadline, "install", "--package-lock-only", ...request.requirements);
    if (asked.error)
        throw explain(request, asked);
    const packages = resolved(work);
    if (packages.length > request.most)
        throw new Failure("too-large", `What is asked for needs ${packages.length} packages, and no more than `
            + `${request.most} can be had at once.`, "Ask for fewer packages.");
    tell("resolved", { packages });

    progress("download", 0, packages.length);
    const got = await npm(request, work, deadline, "ci");
    if (got.error)
        throw explain(request, got);
    progress("install", packages.length, packages.length);
    replaceLinks(`${work}/node_modules/.bin`);
    renameSync(`${work}/node_modules`, request.target);
}

try {
    await install(JSON.parse(readFileSync(process.argv[2], "utf8")));
    tell("done");
} catch (failure) {
    if (!(failure instanceof Failure))
        throw failure;
    tell("error", failure.members);
    process.exitCode = 1;
}
