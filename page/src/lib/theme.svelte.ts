// Light or dark: as the system is, until somebody chooses.

export type Theme = "light" | "dark";

class Chosen {
  private system = matchMedia("(prefers-color-scheme: dark)");
  now = $state<Theme>(this.system.matches ? "dark" : "light");

  constructor() {
    const kept = stored();
    if (kept) this.now = kept;
    this.system.addEventListener("change", (event) => {
      if (!stored()) this.now = event.matches ? "dark" : "light";
    });
  }

  turn(): void {
    this.now = this.now === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("regard-theme", this.now);
    } catch {
      /* a file that was saved may have no storage */
    }
  }
}

function stored(): Theme | null {
  try {
    const found = localStorage.getItem("regard-theme");
    return found === "light" || found === "dark" ? found : null;
  } catch {
    return null;
  }
}

export const theme = new Chosen();
