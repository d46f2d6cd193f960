// How the page is let in: a link opens it once, and what that is exchanged for stays in this tab.

/** Where a tab keeps its secret; a reload finds it there, and no other tab or program does. */
const NAME = "regard-session";
/** How long other tabs of this page are waited for, in ms. */
const PATIENCE = 300;

export type Why = "no link" | "old link" | "other launch" | "no answer";
interface Told {
  asks?: boolean;
  secret?: string;
}

/** The token of an address, and the address without it. */
export function linkIn(hash: string): { token: string; hash: string } | null {
  const found = /^#token=([\w-]+)(\/.*)?$/.exec(hash);
  return found && { token: found[1], hash: `#${found[2] ?? "/"}` };
}

class Access {
  state = $state<"waiting" | "in" | "out">("waiting");
  why = $state<Why>("no link");
  private secret = "";
  private refused = "";
  private wake: (() => void)[] = [];
  // tabs of one origin hear each other, and nobody else does
  private tabs: BroadcastChannel | null = null;

  /** Come in, by a link in the address or as before; called before anything reads the address. */
  begin(): void {
    this.tabs = new BroadcastChannel(NAME);
    this.tabs.addEventListener("message", (event: MessageEvent<Told>) => this.hear(event.data));
    addEventListener("hashchange", () => this.follow());
    if (this.follow()) return;
    const before = sessionStorage.getItem(NAME);
    if (before) this.enter(before);
    else this.askTabs("no link");
  }

  /** The header that says who asks, as soon as there is one. */
  async header(): Promise<Record<string, string>> {
    if (this.state !== "in") await new Promise<void>((done) => this.wake.push(done));
    return { Authorization: `Bearer ${this.secret}` };
  }

  /** The server did not take the secret. */
  lost(sent: Record<string, string>): void {
    // a request may have been on its way while another secret came
    if (sent.Authorization !== `Bearer ${this.secret}` || this.state !== "in") return;
    this.refused = this.secret;
    sessionStorage.removeItem(NAME);
    this.askTabs("other launch");
  }

  /** Take the token out of the address, so that no history keeps it, and use it. */
  private follow(): boolean {
    const link = linkIn(location.hash);
    if (!link) return false;
    history.replaceState(null, "", link.hash);
    void this.exchange(link.token);
    return true;
  }

  private async exchange(token: string): Promise<void> {
    const headers = { "Content-Type": "application/json" };
    const how: RequestInit = { method: "POST", headers, body: JSON.stringify({ token }), credentials: "omit" };
    const answer = await fetch("/api/session", how).catch(() => null);
    const told = answer?.ok ? ((await answer.json()) as { session: string }) : null;
    if (told) {
      this.enter(told.session);
      this.tabs?.postMessage({ secret: told.session } satisfies Told);
      return;
    }
    // a link that was used already may have been used by this tab
    const before = sessionStorage.getItem(NAME);
    if (before && before !== this.refused) this.enter(before);
    else this.askTabs(answer ? "old link" : "no answer");
  }

  private enter(secret: string): void {
    this.secret = secret;
    sessionStorage.setItem(NAME, secret);
    this.state = "in";
    for (const done of this.wake.splice(0)) done();
  }

  private askTabs(why: Why): void {
    this.state = "waiting";
    this.tabs?.postMessage({ asks: true } satisfies Told);
    setTimeout(() => {
      if (this.state !== "waiting") return;
      this.why = why;
      this.state = "out";
    }, PATIENCE);
  }

  private hear({ asks, secret }: Told): void {
    if (asks && this.state === "in") this.tabs?.postMessage({ secret: this.secret } satisfies Told);
    if (secret && secret !== this.refused && this.state !== "in") this.enter(secret);
  }
}

export const access = new Access();
