// Score raw pixels by a file of `oddone export`, without oddone.
//
//     npm install onnxruntime-node
//     node score.mjs detector.onnx HEIGHT WIDTH pixels.rgb ...
//
// A file of pixels has HEIGHT * WIDTH * 3 bytes: RGB, row by row. To decode pictures, use what you
// have: sharp in Node, a canvas in a browser.

import { readFileSync } from 'node:fs'
import ort from 'onnxruntime-node'

const [model, height, width, ...files] = process.argv.slice(2)
const bytes = readFileSync(model)
const facts = metadata(bytes)
const session = await ort.InferenceSession.create(bytes)

for (const file of files) {
  const pixels = new Uint8Array(readFileSync(file))
  const images = new ort.Tensor('uint8', pixels, [1, Number(height), Number(width), 3])
  const verdict = await session.run({ images })
  let name = facts.classes[Number(verdict.label.data[0])]
  if (!verdict.anomalous) name = `no threshold, most like ${name}` // the detector was not calibrated
  else if (verdict.anomalous.data[0]) name = 'anomalous'
  console.log(`${file}: ${name}, score ${verdict.score.data[0].toFixed(4)}`)
}

// ONNX Runtime for JavaScript does not give the metadata of a model. They are the fields 14 of the
// protobuf message that the file is: pairs of a key and a value, which is JSON here.
function metadata(content) {
  const facts = {}
  for (const [field, entry] of fieldsOf(content)) {
    if (field !== 14) continue
    const pair = Object.fromEntries(fieldsOf(entry))
    const [key, value] = [pair[1], pair[2]].map((text) => Buffer.from(text ?? []).toString())
    facts[key] = key === 'digest' ? value : JSON.parse(value)
  }
  return facts
}

function* fieldsOf(content) {
  let place = 0
  const number = () => {
    for (let value = 0, unit = 1; ; unit *= 128) {
      const byte = content[place++]
      value += (byte & 127) * unit
      if (byte < 128) return value
    }
  }
  while (place < content.length) {
    const tag = number()
    const kind = tag % 8
    if (kind === 0) number()
    else if (kind === 2) {
      const length = number()
      yield [Math.floor(tag / 8), content.subarray(place, (place += length))]
    } else place += kind === 1 ? 8 : 4
  }
}
