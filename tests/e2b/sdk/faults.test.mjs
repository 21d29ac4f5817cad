// How the SDK takes what the reference saw it take: the stand-in's faults are those of the real thing.

import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'

import { AuthenticationError, Sandbox, SandboxNotFoundError, TimeoutError } from 'e2b'

import { StandIn } from './stand_in.mjs'

let standIn
let sandbox
before(async () => {
  standIn = await StandIn.start()
  sandbox = await Sandbox.create('base')
})
beforeEach(() => standIn.control('DELETE', '/faults'))
after(() => standIn.stop())

const start = (fault) => standIn.fault({ on: 'process.start', ...fault })
const run = (script, options) => sandbox.commands.run(script, options)

test('a stream that is cut', async () => {
  await start({ do: 'cut', after: 2 })
  await assert.rejects(run('echo x; sleep 1'), /terminated/)
})

test('a stream that ends without an end event', async () => {
  await start({ do: 'omit', kinds: ['end'] })
  await assert.rejects(run('echo x'), /exited without a result/)
})

test('a stream without its last envelope', async () => {
  await start({ do: 'omit', kinds: ['trailer'] })
  await assert.rejects(run('echo x'), /missing EndStreamResponse/)
})

test('a stream that is refused', async () => {
  await start({ do: 'answer', status: 401, body: '' })
  await assert.rejects(run('true'), AuthenticationError)
  await start({ do: 'answer', status: 502, body: '' })
  await assert.rejects(run('true'), SandboxNotFoundError)
})

test('a stream that says nothing any more', async () => {
  await start({ do: 'stall', after: 1 })
  await assert.rejects(run('echo x', { timeoutMs: 500 }), TimeoutError)
})

test('unknown fields and any spaces are no trouble', async () => {
  await standIn.control('PATCH', '/settings', { unknown_fields: true })
  const other = await Sandbox.create('base', { metadata: { a: 'b' } })
  assert.equal((await other.commands.run('echo fine')).stdout, 'fine\n')
  assert.deepEqual((await other.getInfo()).metadata, { a: 'b' })
  assert.equal(await other.kill(), true)
})
