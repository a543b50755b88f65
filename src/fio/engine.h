// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_ENGINE_H
#define RPMA_FIO_ENGINE_H 1

#include <fio.h>

/* Symbol that fio searches in an external engine; each engine defines it. */
extern __attribute__((visibility("default"))) struct ioengine_ops ioengine;

#endif /* RPMA_FIO_ENGINE_H */
