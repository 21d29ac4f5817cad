// Programs: run, stream, input, background, time limit, kill.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { AuthenticationError, CommandExitError, InvalidArgumentError, Sandbox, TimeoutError } from 'e2b'

import { StandIn } from './stand_in.mjs'

let standIn
let sandbox
before(async () => {
  standIn = await StandIn.start()
  sandbox = await Sandbox.create('base', { envs: { EVERYWHERE: 'yes' } })
})
after(() => standIn.stop())

test('a command gives its output and its exit status', async () => {
  const result = await sandbox.commands.run('echo out; echo err >&2')
  assert.deepEqual([result.exitCode, result.stdout, result.stderr], [0, 'out\n', 'err\n'])
  await assert.rejects(sandbox.commands.run('echo no >&2; exit 3'), (error) => {
    assert.ok(error instanceof CommandExitError)
    assert.deepEqual([error.exitCode, error.stderr], [3, 'no\n'])
    return true
  })
})

test('a command has its environment, directory and user', async () => {
  const script = 'echo $EVERYWHERE $HERE $(pwd) $(id -un) $HOME'
  const asked = await sandbox.commands.run(script, { envs: { HERE: 'too' }, cwd: '/tmp', user: 'root' })
  assert.equal(asked.stdout, 'yes too /tmp root /root\n')
  assert.equal((await sandbox.commands.run(script)).stdout, 'yes /home/user user /home/user\n')
  await assert.rejects(sandbox.commands.run('true', { cwd: '/nowhere' }), InvalidArgumentError)
  await assert.rejects(sandbox.commands.run('true', { user: 'nobody-known' }), AuthenticationError)
})

test('output comes while the command runs, and is whole', async () => {
  const pieces = []
  const command = await sandbox.commands.run('echo first; read line; echo $line; seq 100000', {
    background: true, stdin: true, onStdout: (piece) => pieces.push(piece),
  })
  while (!pieces.length) await new Promise(setImmediate)
  assert.equal(pieces.join(''), 'first\n')
  await sandbox.commands.sendStdin(command.pid, 'second\n')
  const { stdout } = await command.wait()
  const lines = stdout.split('\n')
  assert.equal(lines[1], 'second')
  assert.deepEqual([lines[2], lines.at(-2), lines.length], ['1', '100000', 100003])
})

test('input ends when it is closed', async () => {
  const command = await sandbox.commands.run('cat; echo over', { background: true, stdin: true })
  await command.sendStdin('äöü')
  await command.closeStdin()
  assert.equal((await command.wait()).stdout, 'äöüover\n')
})

test('without input a program reads the end of the file', async () => {
  assert.equal((await sandbox.commands.run('cat; echo over')).stdout, 'over\n')
})

test('the list tells of what runs, and kill ends it', async () => {
  const command = await sandbox.commands.run('sleep 60', { background: true, envs: { MARK: 'x' } })
  const [listed] = await sandbox.commands.list()
  assert.deepEqual([listed.pid, listed.cmd, listed.args, listed.envs], [command.pid, '/bin/bash', ['-l', '-c', 'sleep 60'], { MARK: 'x' }])
  assert.equal(await sandbox.commands.kill(command.pid), true)
  await assert.rejects(command.wait(), CommandExitError)
  assert.equal(await sandbox.commands.kill(command.pid), false)
  assert.deepEqual(await sandbox.commands.list(), [])
})

test('the time limit ends a command', async () => {
  await assert.rejects(sandbox.commands.run('exec sleep 60', { timeoutMs: 500 }), TimeoutError)
  while ((await sandbox.commands.list()).length) await new Promise(setImmediate)
})

test('whoever connects later gets what comes from then on', async () => {
  const command = await sandbox.commands.run('read line; echo got $line', { background: true, stdin: true })
  await command.disconnect()
  const again = await sandbox.commands.connect(command.pid)
  await again.sendStdin('this\n')
  assert.equal((await again.wait()).stdout, 'got this\n')
})

test('a terminal', async () => {
  let text = ''
  const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: (data) => (text += new TextDecoder().decode(data)) })
  await sandbox.pty.resize(terminal.pid, { cols: 100, rows: 30 })
  await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode('stty size; exit\n'))
  await terminal.wait()
  assert.match(text, /30 100/)
})

test('git of the SDK runs on the stand-in', async () => {
  await sandbox.commands.run('mkdir repository')
  await sandbox.git.init('/home/user/repository')
  const status = await sandbox.git.status('/home/user/repository')
  assert.equal(status.fileStatus?.length ?? 0, 0)
})
