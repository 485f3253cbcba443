/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of schedulers and memory optimizers by a 128-bit digest of the question: they depend on
 * nothing else.
 */
#ifndef PST_PLANNER_MEMO_H
#define PST_PLANNER_MEMO_H

#include <penstock/ext/ask.h>
#include <penstock/memopt.h>

struct pst_memo_key {
    uint64_t low, high;
};

struct pst_memo_entry {
    struct pst_memo_key key;
    bool used;
    union {
        struct pst_stage_price price;
        struct pst_held held;
    } answer;
};

/* All zero: empty. */
struct pst_memo {
    struct pst_memo_entry *entries;
    size_t size, used; /* size: a power of two, or 0 */
};

void pst_memo_finish(struct pst_memo *memo);

struct pst_memo_key pst_memo_key_place(const struct pst_place *place);
struct pst_memo_key pst_memo_key_question(const struct pst_stage_question *question);
/* Stages of other nodes with equal figures have the same key. */
struct pst_memo_key pst_memo_key_view(const struct pst_stage_view *view);

/* The entry for a key, new (used == false) or answered already. The caller who
   answers a new one keeps it, before the next is looked for. */
struct pst_memo_entry *pst_memo_find(struct pst_memo *memo, struct pst_memo_key key);
void pst_memo_keep(struct pst_memo *memo, struct pst_memo_entry *entry, struct pst_memo_key key);

#endif
