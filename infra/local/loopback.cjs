// Loaded before kinesis-local, which listens on all addresses and has no option for it: every server of this process
// listens on loopback.
const { Server } = require("node:net");

const listen = Server.prototype.listen;
Server.prototype.listen = function (first, ...rest) {
  const options = typeof first === "object" && first !== null ? first : { port: first };
  const callback = rest.find((argument) => typeof argument === "function");
  return listen.call(this, { ...options, host: "127.0.0.1" }, callback);
};
