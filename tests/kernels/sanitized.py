"""The machine code of the thread pool under ThreadSanitizer.

    python -m tests.kernels.sanitized --clang clang-16 --mistakes

`interleavings` shows every order of few threads and loops; this runs many, on a real processor, compiled with
optimization. The text in LLVM's language is that of fgrad, with an attribute that asks for the sanitizer;
callers and workers are threads of a program in C. With `--mistakes` it runs the mistakes of
`test_interleavings` too, which shows what the sanitizer would say.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.kernels.test_interleavings import MISTAKES

from fgrad.kernels import pool

DRIVER = r"""
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void share(int64_t *queue, int64_t *loop, int64_t lo, int64_t hi);
int64_t help(int64_t *queue, int64_t turns);
static int64_t queue[WORDS] __attribute__((aligned(64)));
static atomic_int stop;
static void doze(int32_t time) { usleep(time); }
static void kernel(int64_t *slots, int64_t *args, int64_t lo, int64_t hi) {
  for (int64_t i = lo; i < hi; i++) {
    slots[i] += args[0];
    if (i % 8 == 0) sched_yield();
  }
}
static void *caller(void *which) {
  unsigned seed = (unsigned)(intptr_t)which;
  int64_t seen[512] = {0}, args[1], loop[3] = {(int64_t)kernel, (int64_t)seen, (int64_t)args};
  for (int k = 0; k < LOOPS; k++) {
    int64_t count = rand_r(&seed) % 512;
    args[0] = k + 1;
    share(queue, loop, 0, count);
    for (int i = 0; i < 512; i++) {
      if (seen[i] != (i < count ? k + 1 : 0)) {
        printf("wrong: loop %d, step %d, %ld\n", k, i, (long)seen[i]);
        exit(1);
      }
      seen[i] = 0;
    }
    args[0] = -1;
  }
  return 0;
}
static void *worker(void *_) {
  int64_t loops = 0;
  while (!atomic_load(&stop)) {
    loops += help(queue, 50);
    __atomic_store_n(&queue[LATE], 0, __ATOMIC_RELAXED);
  }
  return (void *)loops;
}
int main(void) {
  pthread_t c[CALLERS], w[WORKERS];
  int64_t total = 0;
  queue[PARTS] = WORKERS + 1;
  queue[TURNS] = 20;
  queue[SLEEP] = (int64_t)doze;
  queue[TIME] = 5;
  for (int i = 0; i < WORKERS; i++) pthread_create(&w[i], 0, worker, 0);
  for (intptr_t i = 0; i < CALLERS; i++) pthread_create(&c[i], 0, caller, (void *)(i + 1));
  for (int i = 0; i < CALLERS; i++) pthread_join(c[i], 0);
  atomic_store(&stop, 1);
  for (int i = 0; i < WORKERS; i++) {
    void *n;
    pthread_join(w[i], &n);
    total += (int64_t)n;
  }
  printf("right: %d loops of each of %d callers, helped %ld times\n", LOOPS, CALLERS, (long)total);
  return 0;
}
"""


def run(text: str, folder: Path, clang: str, sizes: dict[str, int], limit: float) -> str:
    """Return how many reports there are, and what the program says."""
    words = {n: getattr(pool, n) for n in ("PARTS", "TURNS", "SLEEP", "TIME", "LATE", "WORDS")}
    text = re.sub(r"^(define .*) \{$", r"\1 #0 {", text, flags=re.MULTILINE)
    (folder / "pool.ll").write_text(text + "\nattributes #0 = { sanitize_thread }\n")
    (folder / "driver.c").write_text(DRIVER)
    named = [f"-D{name}={value}" for name, value in {**words, **sizes}.items()]
    options = [
        "-O1",
        "-g",
        "-w",
        "-fsanitize=thread",
        *named,
        "driver.c",
        "pool.ll",
        "-o",
        "driver",
        "-lpthread",
    ]
    subprocess.run([clang, *options], cwd=folder, check=True)
    try:
        env = {**os.environ, "TSAN_OPTIONS": "exitcode=0"}
        done = subprocess.run(
            ["./driver"], cwd=folder, env=env, capture_output=True, timeout=limit, check=False
        )
        out, said = done.stdout + done.stderr, done.stdout.decode().strip()
    except subprocess.TimeoutExpired as late:
        out, said = (late.stdout or b"") + (late.stderr or b""), f"ended after {limit} s"
    return f"{out.count(b'WARNING: ThreadSanitizer')} reports; {said}"


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clang", default="clang")
    for name, default in (("callers", 3), ("workers", 4), ("loops", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seconds", type=float, default=60, help="for each program")
    parser.add_argument("--mistakes", action="store_true")
    given = parser.parse_args()
    sizes = {n.upper(): getattr(given, n) for n in ("callers", "workers", "loops")}
    text, failed = pool._text(), False
    for name, (right, wrong) in {"as it is": ("", ""), **(MISTAKES if given.mistakes else {})}.items():
        with tempfile.TemporaryDirectory() as folder:
            found = run(
                text.replace(right, wrong) if right else text, Path(folder), given.clang, sizes, given.seconds
            )
        print(f"{name}: {found}", flush=True)  # noqa: T201
        failed = failed or (not right and not found.startswith("0 reports; right"))
    sys.exit(failed)


if __name__ == "__main__":
    main()
