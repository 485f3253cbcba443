/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"
#include "base/util.h"

#define REDRAW_NS 100000000u /* ten a second */

void pst_progress_init(struct pst_progress *progress, FILE *out, uint64_t steps, uint64_t log_every)
{
    const char *term = getenv("TERM");

    memset(progress, 0, sizeof *progress);
    progress->out = out;
    progress->unit = "tok";
    progress->terminal = out != NULL && isatty(fileno(out)) == 1 && term != NULL &&
                         term[0] != '\0' && strcmp(term, "dumb") != 0;
    progress->steps = steps;
    progress->log_every = log_every < 1 ? 1 : log_every;
}

char *pst_format_eta(char *text, uint64_t seconds)
{
    unsigned long long s = seconds;

    if (s < 60) {
        snprintf(text, 32, "%llus", s);
    } else if (s < 3600) {
        snprintf(text, 32, "%llum%02llus", s / 60, s % 60);
    } else {
        snprintf(text, 32, "%lluh%02llum", s / 3600, s / 60 % 60);
    }
    return text;
}

char *pst_format_count(char *text, double count)
{
    if (count < 999.5) {
        snprintf(text, 32, "%.0f", count);
    } else if (count < 999.5e3) {
        snprintf(text, 32, "%.1fk", count / 1e3);
    } else if (count < 999.5e6) {
        snprintf(text, 32, "%.1fM", count / 1e6);
    } else {
        snprintf(text, 32, "%.1fG", count / 1e9);
    }
    return text;
}

/* Shorter than a row of the terminal, or it would be drawn again below itself. */
static void cut(struct pst_progress *progress, char *line)
{
    struct winsize size;

    if (ioctl(fileno(progress->out), TIOCGWINSZ, &size) == 0) {
        progress->width = size.ws_col;
    }
    if (progress->width > 1 && strlen(line) >= (size_t)progress->width) {
        line[progress->width - 1] = '\0';
    }
}

/* Is this step's line due? */
static bool is_due(const struct pst_progress *progress, uint64_t step, uint64_t now_ns)
{
    if (step == progress->steps) {
        return true;
    }
    if (progress->terminal) {
        return now_ns - progress->last_ns >= REDRAW_NS;
    }
    return step % progress->log_every == 0;
}

void pst_progress_step(struct pst_progress *progress, uint64_t step, double loss, uint64_t step_ns,
                       uint64_t units, uint64_t peak_bytes, uint64_t now_ns)
{
    double slowness = progress->slowness > 0 ? progress->slowness : 1;
    char rate[32], peak[32], eta[32], known[32] = "", line[192];

    /* The first step pays for what is made once. */
    progress->mean_ns =
        progress->n_steps++ > 1 ? 0.9 * progress->mean_ns + 0.1 * (double)step_ns : (double)step_ns;
    if (progress->out == NULL || !is_due(progress, step, now_ns)) {
        return;
    }
    progress->last_ns = now_ns;
    pst_format_count(rate, (double)units * 1e9 / progress->mean_ns);
    pst_format_bytes(peak, peak_bytes);
    pst_format_eta(
        eta, (uint64_t)((double)(progress->steps - step) * progress->mean_ns * slowness / 1e9));
    if (!isnan(loss)) {
        snprintf(known, sizeof known, "  loss %.3f", loss);
    }
    snprintf(line, sizeof line, "step %llu/%llu%s  %s %s/s  peak %s  eta %s",
             (unsigned long long)step, (unsigned long long)progress->steps, known, rate,
             progress->unit, peak, eta);
    if (progress->terminal) {
        cut(progress, line);
        fprintf(progress->out, "\r%s\033[K", line);
    } else {
        fprintf(progress->out, "%s\n", line);
    }
    progress->drawn = progress->terminal;
    fflush(progress->out);
}

void pst_progress_clear(struct pst_progress *progress)
{
    if (progress->drawn) {
        fputs("\r\033[K", progress->out);
        fflush(progress->out);
        progress->drawn = false;
    }
}

void pst_progress_note(struct pst_progress *progress, const char *text)
{
    pst_progress_clear(progress);
    if (progress->out != NULL) {
        pst_text_printf(progress->out, "%s\n", text);
        fflush(progress->out);
    }
}
