// What a run does, by E2B's SDK: runs once for each line of its standard input, and answers with the milliseconds that it took.

import { readFile, writeFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'

import { Sandbox } from 'e2b'

const [script, output] = process.argv.slice(2)

async function run() {
  const began = performance.now()
  const sandbox = await Sandbox.create('base', { timeoutMs: 120_000, allowInternetAccess: false })
  await sandbox.files.write('/workspace/script.py', await readFile(script, 'utf8'))
  const { stdout } = await sandbox.commands.run('cd /workspace && python3 script.py', { timeoutMs: 60_000 })
  await writeFile(output, await sandbox.files.read('/workspace/out.txt'))
  await sandbox.kill()
  if (stdout !== '4\n') throw new Error(stdout)
  return performance.now() - began
}

for await (const _ of createInterface({ input: process.stdin })) console.log(await run())
process.exit()
