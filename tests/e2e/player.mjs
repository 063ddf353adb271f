// Plays a recording with asciinema's own player, as fast as it can, and tells what it gave.
// Usage: node player.mjs NODE_MODULES FILE

import { readdirSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [modules, file] = process.argv.slice(2);
const dist = `${modules}/asciinema-player/dist`;
// The part without a page around it; its name has a hash.
const name = readdirSync(dist).find((one) => /^core-.*\.js$/.test(one));
const { C: Core } = await import(pathToFileURL(`${dist}/${name}`));

const complain = (...told) => {
  console.error(...told);
  process.exit(1);
};
const logger = { debug() {}, info() {}, warn: complain, error: complain };
const source = { driver: "recording", data: readFileSync(file, "utf-8"), parser: "asciicast" };
const player = new Core(source, { logger, speed: 1000 });

const given = [];
for (const kind of ["output", "input", "resize", "marker"])
  player.addEventListener(kind, (data) => given.push([kind, data]));
player.addEventListener("error", complain);
const ended = new Promise((resolve) => player.addEventListener("ended", resolve));
player.terminalReady();
await player.play();
await ended;
console.log(JSON.stringify(given));
process.exit(0);
