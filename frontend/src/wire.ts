// Numbers as show/charts/_wire.py packs them.
export type Numbers = Float32Array | Float64Array | Uint8Array | Int32Array;

export interface Packed {
  facts: Record<string, any>;
  arrays: Record<string, Numbers>;
  shapes: Record<string, number[]>;
}

const TYPES: Record<string, any> = {
  f4: Float32Array,
  f8: Float64Array,
  u1: Uint8Array,
  i4: Int32Array,
};

export function unpack(buffer: ArrayBuffer): Packed {
  const length = new DataView(buffer).getUint32(0, true);
  const facts = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays: Record<string, Numbers> = {};
  const shapes: Record<string, number[]> = {};
  for (const [name, { type, shape, at }] of Object.entries<any>(facts.arrays)) {
    const size = shape.reduce((a: number, b: number) => a * b, 1);
    shapes[name] = shape;
    if (type === "d4") {
      arrays[name] = decimals(new Uint8Array(buffer, 4 + length + at, 3 * size));
    } else {
      arrays[name] = new TYPES[type](buffer, 4 + length + at, size);
    }
  }
  return { facts, arrays, shapes };
}

/** Four or five digits in three bytes: all low bytes, all high bytes, all powers. */
function decimals(bytes: Uint8Array): Float32Array {
  const size = bytes.length / 3;
  const values = new Float32Array(size);
  for (let i = 0; i < size; i++) {
    const digits = bytes[i] | (bytes[size + i] << 8);
    const power = bytes[2 * size + i];
    if (power === 0) values[i] = digits === 0 ? 0 : NaN;
    else {
      const sign = digits & 0x8000 ? -1 : 1;
      const rest = digits & 0x7fff;
      values[i] = sign * (power < 10 ? 10_000 * power + rest : Number(`${rest}e${power - 131}`));
    }
  }
  return values;
}
