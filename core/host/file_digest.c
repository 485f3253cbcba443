/* SPDX-License-Identifier: Apache-2.0 */
#include "host/file_digest.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

bool pst_digest_file(int fd, char ret_text[PST_DIGEST_TEXT])
{
    XXH3_state_t *state = XXH3_createState();
    char bytes[16384];
    XXH128_hash_t digest;
    off_t at = 0;
    ssize_t n = -1;

    if (state == NULL) {
        errno = ENOMEM;
        return false;
    }
    if (XXH3_128bits_reset(state) == XXH_OK) {
        while ((n = pread(fd, bytes, sizeof bytes, at)) > 0 || (n < 0 && errno == EINTR)) {
            at += n > 0 ? n : 0;
            if (n > 0) {
                XXH3_128bits_update(state, bytes, (size_t)n);
            }
        }
    }
    digest = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(ret_text, PST_DIGEST_TEXT, "%016llx%016llx", (unsigned long long)digest.high64,
             (unsigned long long)digest.low64);
    return n == 0;
}
