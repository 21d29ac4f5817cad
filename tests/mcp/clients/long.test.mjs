// A run that outlives the patience of most clients; the SDKs' own is 60 s.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { ERAS, Session } from './server.mjs'

for (const [name, era] of Object.entries(ERAS))
  test(`${name}: a run of 90 s is answered before a client gives up, and waited for again`, async () => {
    const session = await Session.open(era)
    const began = Date.now()
    let result = await session.run('import time; time.sleep(90); print("late")', { timeoutSeconds: 60 })
    // More than the default would need an approval, so the machine's own default is raised for this test.
    assert.equal(result.structuredContent.status, 'running')
    assert.ok(Date.now() - began < 50_000)
    for (let calls = 0; result.structuredContent.status === 'running'; calls++) {
      assert.ok(calls < 3)
      result = await session.call('get_run', { id: result.structuredContent.id })
    }
    assert.equal(result.structuredContent.stdout.text, 'late\n')
    assert.ok(Date.now() - began > 90_000)
    await session.close()
  })
