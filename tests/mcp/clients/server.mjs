// How the tests start the server: as alice, in the test machine. What a test needs of the machine besides goes
// through `inMachine`.

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { Client as ModernClient } from '@modelcontextprotocol/client'
import { StdioClientTransport as ModernTransport } from '@modelcontextprotocol/client/stdio'
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as LegacyTransport } from '@modelcontextprotocol/sdk/client/stdio.js'

const EXEC = fileURLToPath(new URL('../../machine/exec', import.meta.url))

export const SERVER = { command: EXEC, args: ['--user', 'alice', '--', 'sbxctl', 'mcp'] }

async function as(user, command) {
  const { stdout } = await promisify(execFile)(EXEC, ['--user', user, '--', ...command], { maxBuffer: 64 << 20 })
  return stdout
}

export const inMachine = (...command) => as('alice', command)
export const asRoot = (...command) => as('root', command)

// The same calls over each SDK. `revision` is what client and server are to agree on.
export const ERAS = {
  'SDK 1, legacy': {
    revision: '2025-11-25',
    client: () => new LegacyClient({ name: 'test', version: '1' }, { capabilities: {} }),
    transport: () => new LegacyTransport({ ...SERVER, env: process.env, stderr: 'inherit' }),
    call: (client, params, options) => client.callTool(params, undefined, options),
  },
  'SDK 2, modern': {
    revision: '2026-07-28',
    client: () =>
      new ModernClient({ name: 'test', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
    transport: () => new ModernTransport({ ...SERVER, env: process.env, stderr: 'inherit' }),
    call: (client, params, options) => client.callTool(params, options),
  },
}

export class Session {
  static async open(era) {
    const session = new Session(era)
    session.client = era.client()
    session.client.onerror = error => session.errors.push(error)
    await session.client.connect(era.transport())
    await session.client.listTools() // has the SDK hold each result to its tool's schema
    return session
  }

  constructor(era) {
    this.era = era
    this.errors = [] // of the protocol: something that is no message, say
  }

  // The result of a tool. Every one fits its schema, or the SDK throws.
  call(name, args = {}, options = {}) {
    return this.era.call(this.client, { name, arguments: args }, options)
  }

  run(code, args = {}, options = {}) {
    return this.call('run_code', { code, ...args }, options)
  }

  close() {
    return this.client.close()
  }
}

export function texts(result) {
  return result.content.filter(item => item.type === 'text').map(item => item.text)
}

// Polls, since only the machine knows.
export async function until(what, predicate, seconds = 20) {
  const deadline = Date.now() + seconds * 1000
  for (;;) {
    const value = await predicate()
    if (value) return value
    if (Date.now() > deadline) throw new Error(`waited ${seconds} s in vain for ${what}`)
    await new Promise(resolve => setTimeout(resolve, 100))
  }
}
