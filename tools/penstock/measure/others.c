/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/others.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* Fields of the line "cpu" of /proc/stat (proc(5)), in ticks. They include guest times. */
enum { USER = 0, NICE, SYSTEM, IDLE, IO_WAIT, IRQ, SOFT_IRQ, STEAL, FIELDS };

static double seconds_of(const struct timeval *time)
{
    return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

static double used_by(int who)
{
    struct rusage used;

    return getrusage(who, &used) == 0 ? seconds_of(&used.ru_utime) + seconds_of(&used.ru_stime) : 0;
}

void pst_others_begin(struct pst_others *ret_others)
{
    FILE *in = fopen("/proc/stat", "re");
    const double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    double ticks[FIELDS] = {0};
    int n = 0;

    *ret_others = (struct pst_others){.own = used_by(RUSAGE_SELF) + used_by(RUSAGE_CHILDREN)};
    if (in != NULL) {
        n = fscanf(in, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &ticks[USER], &ticks[NICE],
                   &ticks[SYSTEM], &ticks[IDLE], &ticks[IO_WAIT], &ticks[IRQ], &ticks[SOFT_IRQ],
                   &ticks[STEAL]);
        fclose(in);
    }
    for (int i = 0; n == FIELDS && i < FIELDS; i++) {
        ret_others->all += tick * ticks[i];
        ret_others->busy += i == IDLE || i == IO_WAIT ? 0 : tick * ticks[i];
    }
}

double pst_others_share(const struct pst_others *since)
{
    struct pst_others now;
    double all, others;

    pst_others_begin(&now);
    all = now.all - since->all;
    others = now.busy - since->busy - (now.own - since->own);
    return all > 0 ? fmin(fmax(others / all, 0), 1) : 0;
}
