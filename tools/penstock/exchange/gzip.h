/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes compressed to the format of gzip (RFC 1952), without name and date: the same bytes in, the
 * same bytes out.
 */
#ifndef PST_EXCHANGE_GZIP_H
#define PST_EXCHANGE_GZIP_H

#include <stddef.h>

#include "base/error.h"

/* free() *ret_packed. */
void pst_gzip(const void *bytes, size_t length, unsigned char **ret_packed, size_t *ret_length);

#endif
