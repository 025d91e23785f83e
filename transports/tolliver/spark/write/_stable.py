"""Repartitioning of a batch, with the same partitions in every try.

A message of a task is identified by the task's partition and the row's place in it (T-72a). If a batch is computed
again with other cores, or files are split differently, its partitions differ, and each row becomes a new message. So
here the partitions depend on the rows alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def stable(df: DataFrame, key: str | Column, *, partitions: int) -> DataFrame:
    """The same rows in `partitions` partitions that are the same in every try, whatever the cores: for a `writeId`.

    `key` is a column, by name or as an expression, whose value is unique for each row of the batch; for several columns
    use `functions.struct("a", "b")`. It decides the partition of a row, and the order in it. Afterwards columns may be
    selected and renamed, but the rows must not be partitioned again.

    Raises ValueError for a streaming DataFrame, with advice (T-72a).
    """
    if df.isStreaming:
        raise ValueError(
            "Spark sorts no rows of a streaming DataFrame, so its batches cannot be made stable. Either give the sink "
            f'ids: write df.repartition({partitions}, key) with .option("idColumn", ...), a column of numbers that '
            "belong to the rows and are different within a partition. Or write each batch by itself: "
            f"df.writeStream.foreachBatch(write), where write(batch, number) has stable(batch, key, "
            f'partitions={partitions}).write.format("tolliver") with .option("writeId", f"a-name/{{number}}")'
        )
    return df.repartition(partitions, key).sortWithinPartitions(key)
