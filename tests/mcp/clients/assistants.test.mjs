// Assistants' own command lines, which need no key to look at their servers: what `sbxctl mcp install` writes is
// what they read, and the handshake goes well.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { SERVER, inMachine } from './server.mjs'

const MODULES = fileURLToPath(new URL('node_modules', import.meta.url))

const ASSISTANTS = {
  'claude-code': {
    settings: '.claude.json',
    command: [join(MODULES, '@anthropic-ai/claude-code-linux-x64/claude'), 'mcp', 'list'],
    connected: /sbxctl: .* - . Connected/,
  },
  gemini: {
    settings: '.gemini/settings.json',
    command: [process.execPath, join(MODULES, '@google/gemini-cli/bundle/gemini.js'), 'mcp', 'list'],
    connected: /sbxctl: .* - Connected/,
  },
}

// The assistant runs here and the server in the machine, so the command is another one; all else is as installed.
async function settingsOf(client) {
  const printed = JSON.parse(await inMachine('sbxctl', 'mcp', 'install', '--client', client, '--print'))
  const server = printed.mcpServers.sbxctl
  assert.deepEqual([server.command, server.args], ['/usr/bin/sbxctl', ['mcp']])
  const { SBXCTL_TEST_MACHINE } = process.env
  Object.assign(server, SERVER, SBXCTL_TEST_MACHINE && { env: { SBXCTL_TEST_MACHINE } })
  return JSON.stringify(printed)
}

for (const [client, { settings, command, connected }] of Object.entries(ASSISTANTS))
  test(`${client} connects to what was installed for it`, async t => {
    const home = await mkdtemp(join(tmpdir(), 'assistant-'))
    t.after(() => rm(home, { recursive: true }))
    await mkdir(dirname(join(home, settings)), { recursive: true })
    await mkdir(join(home, '.gemini'), { recursive: true })
    await writeFile(join(home, '.gemini/trustedFolders.json'), JSON.stringify({ [home]: 'TRUST_FOLDER' }))
    await writeFile(join(home, settings), await settingsOf(client))
    const { stdout, stderr } = await promisify(execFile)(command[0], command.slice(1), {
      cwd: home,
      env: { ...process.env, HOME: home },
      timeout: 60_000,
    })
    assert.match(stdout + stderr, connected)
  })
