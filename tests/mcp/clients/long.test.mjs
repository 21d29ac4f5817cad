// A run that outlives the patience of most clients; the SDKs' own is 60 s.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { ERAS, Session, asRoot } from './server.mjs'

// Runs of more than a minute would need an approval.
const CONFIGURATION = '/etc/sbxctl/sbxctl.conf.d/90-long.conf'

before(() => asRoot('sh', '-c', `printf '[Defaults]\\nTimeout=120s\\n' >${CONFIGURATION}; systemctl stop sbxctl-helper`))
after(() => asRoot('sh', '-c', `rm ${CONFIGURATION}; systemctl stop sbxctl-helper`))

for (const [name, era] of Object.entries(ERAS))
  test(`${name}: a run of 90 s is answered before a client gives up, and waited for again`, async () => {
    const session = await Session.open(era)
    const began = Date.now()
    let result = await session.run('import time; time.sleep(90); print("late")')
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
