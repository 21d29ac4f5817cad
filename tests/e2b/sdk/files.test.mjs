// Files: write, read, look at, move, remove, watch, and the addresses that carry a signature.

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'

import { FileNotFoundError, InvalidArgumentError, Sandbox } from 'e2b'

import { StandIn } from './stand_in.mjs'

let standIn
let sandbox
before(async () => {
  standIn = await StandIn.start()
  sandbox = await Sandbox.create('base')
})
after(() => standIn.stop())

const digest = (data) => createHash('sha256').update(data).digest('hex')

test('a file is written and read, with its parents made', async () => {
  const written = await sandbox.files.write('deep/down/ä b.txt', 'text')
  assert.deepEqual([written.name, written.path, written.type], ['ä b.txt', '/home/user/deep/down/ä b.txt', 'file'])
  assert.equal(await sandbox.files.read('deep/down/ä b.txt'), 'text')
  assert.equal((await sandbox.commands.run('cat "/home/user/deep/down/ä b.txt"; stat -c %U deep')).stdout, 'textuser\n')
})

const WAYS = { multipart: { useOctetStream: false }, 'octet-stream': { useOctetStream: true }, gzip: { gzip: true } }
for (const [how, options] of Object.entries(WAYS)) {
  test(`8 MiB of bytes by ${how}`, async () => {
    const data = randomBytes(8 << 20)
    await sandbox.files.write('big', new Blob([data]), options)
    assert.equal((await sandbox.commands.run('sha256sum < big')).stdout.slice(0, 64), digest(data))
    assert.equal(digest(await sandbox.files.read('big', { format: 'bytes' })), digest(data))
    const request = (await standIn.requests()).findLast((entry) => entry.operation === 'files.upload')
    assert.match(request.headers['content-type'], how === 'multipart' ? /^multipart/ : /^application\/octet-stream/)
  })
}

test('many files at once, by either way', async () => {
  const files = Array.from({ length: 50 }, (_, i) => ({ path: `many/${i}`, data: `file ${i}` }))
  for (const useOctetStream of [false, true]) {
    const written = await sandbox.files.write(files, { useOctetStream })
    assert.deepEqual(written.map((file) => file.name), files.map((file) => file.path.slice(5)))
    assert.equal((await sandbox.commands.run('cat many/49; rm -r many')).stdout, 'file 49')
  }
})

test('directories are made and listed, to the depth that is asked for', async () => {
  assert.equal(await sandbox.files.makeDir('tree/sub'), true)
  assert.equal(await sandbox.files.makeDir('tree/sub'), false)
  await sandbox.files.write('tree/sub/file', '12345')
  const shallow = await sandbox.files.list('tree')
  assert.deepEqual(shallow.map((entry) => [entry.name, entry.type]), [['sub', 'dir']])
  const deep = await sandbox.files.list('tree', { depth: 2 })
  assert.deepEqual(deep.map((entry) => [entry.path, entry.size]), [['/home/user/tree/sub', deep[0].size], ['/home/user/tree/sub/file', 5]])
  assert.deepEqual(await sandbox.files.list('tree/sub').then(([entry]) => [entry.owner, entry.permissions]), ['user', '-rw-r--r--'])
  await assert.rejects(sandbox.files.list('nowhere'), FileNotFoundError)
  await assert.rejects(sandbox.files.list('tree/sub/file'), InvalidArgumentError)
})

test('a link is told as one', async () => {
  await sandbox.commands.run('echo x > target; ln -s target link')
  const info = await sandbox.files.getInfo('link')
  assert.equal(info.symlinkTarget, '/home/user/target')
})

test('files are renamed and removed', async () => {
  await sandbox.files.write('old', 'same')
  assert.equal((await sandbox.files.rename('old', 'moved/new')).path, '/home/user/moved/new')
  assert.equal(await sandbox.files.exists('old'), false)
  assert.equal(await sandbox.files.read('moved/new'), 'same')
  await sandbox.files.remove('moved')
  assert.equal(await sandbox.files.exists('moved'), false)
  await sandbox.files.remove('moved')
})

test('what cannot be read is told as the SDK knows it', async () => {
  await assert.rejects(sandbox.files.read('nowhere'), FileNotFoundError)
  await assert.rejects(sandbox.files.read('/tmp'), InvalidArgumentError)
})

test('signed addresses need no token, but the right signature', async () => {
  await sandbox.files.write('signed', 'secret')
  const headers = { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49983' }
  const url = await sandbox.downloadUrl('signed', { useSignatureExpiration: 60 })
  assert.equal(await (await fetch(url, { headers })).text(), 'secret')
  assert.equal((await fetch(url.replace('signed', 'other'), { headers })).status, 401)
  const expired = await sandbox.downloadUrl('signed', { useSignatureExpiration: -60 })
  assert.equal((await fetch(expired, { headers })).status, 401)
  const form = new FormData()
  form.append('file', new Blob(['uploaded']), 'signed')
  assert.equal((await fetch(await sandbox.uploadUrl('signed'), { method: 'POST', headers, body: form })).status, 200)
  assert.equal(await sandbox.files.read('signed'), 'uploaded')
})

test('a directory is watched', async () => {
  await sandbox.files.makeDir('watched')
  const events = []
  const heard = new Promise((resolve) => {
    sandbox.files.watchDir('watched', (event) => {
      events.push(event)
      resolve()
    }).then((handle) => sandbox.files.write('watched/new', 'x').then(() => heard).then(() => handle.stop()))
  })
  await heard
  assert.deepEqual([events[0].name, events[0].type], ['new', 'create'])
})
