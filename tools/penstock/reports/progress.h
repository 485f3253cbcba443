/* SPDX-License-Identifier: Apache-2.0
 *
 * A sign of life during a run: on a terminal one line that is drawn again, elsewhere whole lines
 * now and then.
 */
#ifndef PST_REPORTS_PROGRESS_H
#define PST_REPORTS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct pst_progress {
    FILE *out;        /* NULL: silent */
    const char *unit; /* of the rate; "tok" from the beginning */
    bool terminal;
    bool drawn; /* a line stands unfinished on the terminal */
    uint64_t steps, log_every;
    uint64_t last_ns; /* when it was drawn last */
    double mean_ns;   /* of recent steps */
    uint64_t n_steps; /* seen so far */
    double slowness;  /* wall time of a time of a step; 0 counts as 1 */
    int width;        /* columns of the terminal; 0: unknown */
};

/* A terminal that cannot move (TERM is "dumb" or not set) counts as none. log_every: steps between
 * lines where `out` is no terminal; at least 1. */
void pst_progress_init(struct pst_progress *progress, FILE *out, uint64_t steps,
                       uint64_t log_every);

/* loss NaN: there is none. After step `step` (1 for the first) of `step_ns`, with this many units
 * a step and this peak. */
void pst_progress_step(struct pst_progress *progress, uint64_t step, double loss, uint64_t step_ns,
                       uint64_t units, uint64_t peak_bytes, uint64_t now_ns);

/* A line of its own, such as an evaluation; no newline in `text`. */
void pst_progress_note(struct pst_progress *progress, const char *text);

/* Takes the unfinished line away. */
void pst_progress_clear(struct pst_progress *progress);

/* "4m10s", "12s", "2h03m": text must hold 32 bytes; returns it. */
char *pst_format_eta(char *text, uint64_t seconds);
/* "812", "18.2k", "3.1M". text must hold 32 bytes; returns it. */
char *pst_format_count(char *text, double count);

#endif
