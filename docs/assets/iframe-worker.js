/* A browser starts no worker from a file: where the site is opened from a folder, the search runs
   in a hidden frame instead. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.src = "about:blank";
      this.frame.title = "search";
      const begin = () => this.begin(url);
      if (document.body) begin(); else addEventListener("DOMContentLoaded", begin);
    }
    begin(url) {
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...urls) => Promise.all(urls.map((each) => this.load(each)));
      this.load(url).then(() => {
        this.ready = true;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      });
    }
    load(url) {
      return new Promise((done, failed) => {
        const script = this.frame.contentDocument.createElement("script");
        Object.assign(script, { src: url, onload: done, onerror: failed });
        this.frame.contentDocument.body.append(script);
      });
    }
    postMessage(data) {
      const event = () => new this.frame.contentWindow.MessageEvent("message", { data });
      if (this.ready) this.frame.contentWindow.dispatchEvent(event());
      else this.waiting.push(data);
    }
    terminate() { this.frame.remove(); }
  };
}
