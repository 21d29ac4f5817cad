// Sandboxes: create, look at, list, prolong, pause, connect, kill.

import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'

import { AuthenticationError, RateLimitError, Sandbox, SandboxError, SandboxNotFoundError, TimeoutError } from 'e2b'

import { StandIn } from './stand_in.mjs'

let standIn
before(async () => (standIn = await StandIn.start()))
afterEach(() => standIn.reset())
after(() => standIn.stop())

async function everyPage(paginator) {
  const pages = []
  while (paginator.hasNext) pages.push(await paginator.nextItems())
  return pages
}

test('a sandbox is created, tells of itself, and is killed', async () => {
  const sandbox = await Sandbox.create('base', { metadata: { run: '7' }, timeoutMs: 90_000, allowInternetAccess: false })
  assert.match(sandbox.sandboxId, /^i[a-z0-9]{19}$/)
  assert.equal(await sandbox.isRunning(), true)
  const info = await sandbox.getInfo()
  assert.deepEqual(info.metadata, { run: '7' })
  assert.equal(info.state, 'running')
  assert.equal(info.allowInternetAccess, false)
  assert.ok(Math.abs(info.endAt - info.startedAt - 90_000) < 2_000)
  assert.equal(await sandbox.kill(), true)
  assert.equal(await sandbox.kill(), false)
  assert.equal(await sandbox.isRunning(), false)
  await assert.rejects(sandbox.getInfo(), SandboxNotFoundError)
  const { created, deleted, live } = await standIn.overview()
  assert.deepEqual({ created, deleted, live }, { created: 1, deleted: 1, live: [] })
})

test('the SDK asks for what the reference says it asks for', async () => {
  await Sandbox.create('base', { metadata: { a: 'b' }, envs: { X: 'y' }, timeoutMs: 60_000, allowInternetAccess: false })
  const [request] = await standIn.requests()
  assert.equal(request.path, '/v2/sandboxes')
  assert.equal(request.headers['user-agent'], 'e2b-js-sdk/2.51.0')
  const [{ request: asked }] = await standIn.control('GET', '/sandboxes')
  assert.deepEqual(asked, {
    templateID: 'base', metadata: { a: 'b' }, envVars: { X: 'y' }, timeout: 60, allow_internet_access: false, secure: true,
  })
})

test('the list is filtered by metadata, whatever is in it', async () => {
  const value = 'b c&d=é%'
  const one = await Sandbox.create('base', { metadata: { a: value, same: 'x' } })
  await Sandbox.create('base', { metadata: { a: 'other', same: 'x' } })
  const [found] = await everyPage(Sandbox.list({ query: { metadata: { a: value } } }))
  assert.deepEqual(found.map((entry) => entry.sandboxId), [one.sandboxId])
  assert.equal(found[0].metadata.a, value)
  const [both] = await everyPage(Sandbox.list({ query: { metadata: { same: 'x' } } }))
  assert.equal(both.length, 2)
})

test('the list comes in pages, the newest first', async () => {
  const ids = []
  for (let i = 0; i < 5; i++) ids.unshift((await Sandbox.create('base')).sandboxId)
  const pages = await everyPage(Sandbox.list({ limit: 2 }))
  assert.deepEqual(pages.map((page) => page.length), [2, 2, 1])
  assert.deepEqual(pages.flat().map((entry) => entry.sandboxId), ids)
})

test('the life clock ends a sandbox and all that runs in it', async () => {
  const sandbox = await Sandbox.create('base', { timeoutMs: 1_000 })
  const command = await sandbox.commands.run('sleep 60', { background: true })
  await assert.rejects(command.wait(), TimeoutError)
  assert.equal(await sandbox.isRunning(), false)
  assert.equal((await standIn.overview()).expired, 1)
  await assert.rejects(sandbox.commands.run('true'), SandboxNotFoundError)
})

test('the life clock can be set anew', async () => {
  const sandbox = await Sandbox.create('base', { timeoutMs: 300_000 })
  await sandbox.setTimeout(20_000)
  const { endAt } = await sandbox.getInfo()
  assert.ok(Math.abs(endAt - Date.now() - 20_000) < 2_000)
  await sandbox.kill()
  await assert.rejects(sandbox.setTimeout(20_000), SandboxNotFoundError)
})

test('another process connects to a sandbox that is there', async () => {
  const sandbox = await Sandbox.create('base')
  await sandbox.files.write('note', 'here')
  const again = await Sandbox.connect(sandbox.sandboxId)
  assert.equal(await again.files.read('note'), 'here')
  await sandbox.kill()
  await assert.rejects(Sandbox.connect(sandbox.sandboxId), SandboxNotFoundError)
})

test('a paused sandbox goes on where it was', async () => {
  const sandbox = await Sandbox.create('base')
  let heard
  const started = new Promise((resolve) => (heard = resolve))
  const script = 'echo $$ > pid; echo started; while sleep 0.05; do true; done'
  const command = await sandbox.commands.run(script, { background: true, onStdout: heard })
  await started
  assert.equal(await sandbox.pause(), true)
  assert.equal((await sandbox.getInfo()).state, 'paused')
  assert.equal(await sandbox.isRunning(), false)
  const resumed = await sandbox.connect()
  assert.equal((await resumed.getInfo()).state, 'running')
  assert.equal((await resumed.commands.run('kill -0 $(cat pid) && echo alive')).stdout, 'alive\n')
  assert.equal(await command.kill(), true)
})

test('metrics of a sandbox', async () => {
  const sandbox = await Sandbox.create('base')
  const [metrics] = await sandbox.getMetrics()
  assert.equal(metrics.cpuCount, 2)
  assert.ok(metrics.timestamp instanceof Date)
})

test('errors of the control plane are those that the SDK knows', async () => {
  await assert.rejects(Sandbox.create('base', { apiKey: 'e2b_1111' }), AuthenticationError)
  await assert.rejects(Sandbox.create('no-such-template'), SandboxError)
  await assert.rejects(Sandbox.create('base', { timeoutMs: 7_200_000 }), /400: Timeout cannot be greater than 1 hours/)
  await standIn.control('PATCH', '/settings', { max_sandboxes: 0 })
  await assert.rejects(Sandbox.create('base'), RateLimitError)
  assert.equal((await standIn.overview()).created, 0)
})

test('429 with Retry-After is tried again', async () => {
  await standIn.fault({ on: 'create', do: 'rate-limit' })
  await Sandbox.create('base')
  assert.deepEqual((await standIn.requests()).map((request) => request.status), [429, 201])
})

test('a sandbox without the internet has a network of its own', async () => {
  const sandbox = await Sandbox.create('base', { allowInternetAccess: false })
  const { stdout } = await sandbox.commands.run('ls /sys/class/net; wc -l < /proc/net/route')
  assert.equal(stdout.trim().endsWith('1'), true)
  await assert.rejects(sandbox.commands.run('exec 3<>/dev/tcp/192.0.2.1/80'), (error) => error.stderr.includes('unreachable'))
})
