/* SPDX-License-Identifier: Apache-2.0
 *
 * Who else works on this machine while something is measured. Beside others everything takes longer
 * than it would alone, and no figure shows it.
 */
#ifndef PST_MEASURE_OTHERS_H
#define PST_MEASURE_OTHERS_H

/* Beyond this part of the processors' time it is worth a word. */
#define PST_OTHERS_MANY 0.1

/* Seconds of processors since the machine's start, and of this process and its ended children. */
struct pst_others {
    double all, busy, own;
};

void pst_others_begin(struct pst_others *ret_others);
/* The part of all processors' time since then that other processes, the system and other virtual
   machines took: 0 to 1; 0 also where /proc/stat does not tell. Any thread. */
double pst_others_share(const struct pst_others *since);

#endif
