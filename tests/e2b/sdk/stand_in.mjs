// Starts a stand-in of its own for a file of tests, and points the SDK at it by the variables that it documents.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const PROGRAM = fileURLToPath(new URL('../stand_in.py', import.meta.url))

export class StandIn {
  static async start() {
    const process_ = spawn('/usr/bin/python3', [PROGRAM, '--http', '127.0.0.1:0', '--control', '127.0.0.1:0'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [line] = await once(createInterface(process_.stdout), 'line')
    const standIn = new StandIn(process_, JSON.parse(line))
    process.env.E2B_API_KEY = 'e2b_0000'
    process.env.E2B_API_URL = standIn.http
    process.env.E2B_SANDBOX_URL = standIn.http
    return standIn
  }

  constructor(process_, ready) {
    this.process = process_
    this.http = ready.http
    this.controlUrl = `http://${ready.control}`
  }

  async control(method, path, body) {
    const answer = await fetch(this.controlUrl + path, { method, body: body && JSON.stringify(body) })
    if (!answer.ok) throw new Error(await answer.text())
    return answer.json()
  }

  fault(fault) {
    return this.control('POST', '/faults', fault)
  }

  reset() {
    return this.control('POST', '/reset')
  }

  overview() {
    return this.control('GET', '/')
  }

  requests() {
    return this.control('GET', '/requests')
  }

  async stop() {
    this.process.kill()
    await once(this.process, 'exit')
  }
}
