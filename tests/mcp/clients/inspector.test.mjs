// The protocol's own inspector, in both eras, with all that it can find to say of the schemas.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { SERVER } from './server.mjs'

const INSPECTOR = fileURLToPath(new URL('node_modules/.bin/mcp-inspector', import.meta.url))

async function inspect(era, ...args) {
  const options = ['--cli', '--format', 'json', '--quiet', '--protocol-era', era, ...args]
  const { SBXCTL_TEST_MACHINE } = process.env
  if (SBXCTL_TEST_MACHINE) options.push('-e', `SBXCTL_TEST_MACHINE=${SBXCTL_TEST_MACHINE}`)
  const child = spawn(process.execPath, [INSPECTOR, ...options, '--', SERVER.command, ...SERVER.args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, MCP_INSPECTOR_SECRET_STORE: 'memory' },
  })
  const [stdout, stderr, [status]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise(resolve => child.on('close', (...how) => resolve(how))),
  ])
  return { status, stdout, stderr }
}

for (const era of ['legacy', 'modern']) {
  test(`${era}: the tools' schemas pass the strict look`, async () => {
    const { status, stdout, stderr } = await inspect(era, '--method', 'tools/list', '--strict')
    assert.equal(status, 0, stderr)
    assert.equal(stderr, '')
    assert.equal(JSON.parse(stdout).result.tools.length, 5)
  })

  test(`${era}: a tool is called`, async () => {
    const { status, stdout, stderr } = await inspect(
      era, '--method', 'tools/call', '--tool-name', 'run_code', '--tool-args-json', '{"code": "print(4)"}',
    )
    assert.equal(status, 0, stderr)
    assert.equal(JSON.parse(stdout).result.structuredContent.stdout.text, '4\n')
  })
}
