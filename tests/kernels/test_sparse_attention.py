"""DeepSeek's sparse attention, operator by operator: records, indexer, top-k, and MLA over what they choose."""

import math

import pytest
import torch

from sglab.kernels import (
    ContractError,
    act_quant,
    dequantize_k_cache,
    dequantize_k_cache_paged,
    fast_topk_transform_fused,
    fast_topk_transform_ragged_fused,
    fast_topk_v2,
    flash_mla_sparse_fwd,
    flash_mla_with_kvcache,
    fp8_mqa_logits,
    fp8_paged_mqa_logits,
    get_index_k_scale_buffer,
    page_mqa_logits,
    quantize_k_cache,
    set_index_k_scale_buffer,
    set_mla_k_records,
    slot_mqa_logits,
    transform_index_page_table_decode,
    transform_index_page_table_prefill,
)
from tests.support.kernels.compare import ROUNDING, assert_close

E4M3 = torch.float8_e4m3fn
SPARSE = ["reference", "torch", "triton"]


class TestRecords:
    """656 bytes: 512 e4m3, a float32 scale per 128, 64 bfloat16."""

    def test_layout_and_bound(self, implementation, device, generator) -> None:
        k = (torch.randn(5, 1, 576, generator=generator) * 7).bfloat16().to(device)
        k[1, 0, 128:256] = 0
        records = quantize_k_cache(k, implementation=implementation)
        assert records.shape == (5, 1, 656) and records.dtype == E4M3
        raw = records.view(torch.uint8)[:, 0]
        top = k[:, 0, :512].float().unflatten(-1, (4, 128)).abs().amax(-1)
        assert_close(raw[:, 512:528].contiguous().view(torch.float32), torch.where(top == 0, 1.0, top / 448), 1e-7)
        assert_close(raw[:, 528:].contiguous().view(torch.bfloat16), k[:, 0, 512:], 0)
        back = dequantize_k_cache(records, implementation=implementation)
        error = (back.double() - k.double())[:, 0, :512].unflatten(-1, (4, 128)).abs().amax(-1)
        assert (error <= top * (16 / 448 + 2**-8)).all(), "half a unit of e4m3's last place, and bfloat16's rounding"
        assert_close(back[..., 512:], k[..., 512:], 0)

    def test_straight_into_a_cache_and_paged_out(self, implementation, device, generator) -> None:
        k, loc = (
            torch.randn(4, 576, generator=generator).bfloat16().to(device),
            torch.tensor([7, 0, 3, 9], device=device),
        )
        cache = torch.zeros(12, 1, 656, dtype=torch.uint8, device=device)
        set_mla_k_records(cache, loc, k, implementation=implementation)
        wanted = dequantize_k_cache(quantize_k_cache(k, implementation="reference"), implementation="reference")
        paged = dequantize_k_cache_paged(cache, loc.flip(0), implementation=implementation)
        assert_close(paged[:, 0], wanted.flip(0), 0)
        assert (cache[:, 0] != 0).any(1).sum() == 4

    def test_refusals(self) -> None:
        with pytest.raises(ContractError, match="k must be finite"):
            quantize_k_cache(torch.full((1, 576), math.nan))
        with pytest.raises(ContractError, match=r"k must be of shape \(tokens, 576\)"):
            quantize_k_cache(torch.zeros(1, 512))
        with pytest.raises(ContractError, match="page_table_1_flattened must be from 0 to 1"):
            dequantize_k_cache_paged(torch.zeros(2, 1, 656, dtype=torch.uint8), torch.tensor([-1]))


class TestIndexer:
    def test_quantisation(self, implementation, device, generator) -> None:
        x = torch.randn(3, 2, 256, generator=generator).to(device)
        x[0, 0] = 0
        for scale_fmt in (None, "ue8m0"):
            stored, scales = act_quant(x, 128, scale_fmt, implementation=implementation)
            exact = x.unflatten(-1, (2, 128)).abs().amax(-1).clamp(min=1e-4).double() / 448
            wanted = exact if scale_fmt is None else 2.0 ** exact.log2().ceil()
            assert_close(scales, wanted, 1e-7)
            back = stored.float().unflatten(-1, (2, 128)) * scales[..., None]
            assert ((back - x.unflatten(-1, (2, 128))).abs() <= scales[..., None] * 16.001).all()

    def test_power_of_two_scales_by_hand(self, implementation, device) -> None:
        """Largest magnitude 3: 3 / 448 rounds up to 2^-7; 448 gives 1, exactly."""
        for value, wanted in ((3.0, 2**-7), (448.0, 1.0), (449.0, 2.0)):
            x = torch.zeros(1, 128, device=device)
            x[0, 5] = -value
            assert act_quant(x, 128, "ue8m0", implementation=implementation)[1].item() == wanted

    def test_a_page_holds_keys_then_scales(self, device, generator) -> None:
        """64 tokens: 8,192 bytes of keys, then 64 float32 scales: 8,448 bytes."""
        buf = torch.zeros(3, 8448, dtype=torch.uint8, device=device)
        keys, scales = act_quant(torch.randn(3, 128, generator=generator).to(device))
        loc = torch.tensor([65, 191, 0], device=device)
        set_index_k_scale_buffer(buf, loc, keys, scales)
        assert torch.equal(buf[1, 128:256], keys[0].view(torch.uint8))
        assert torch.equal(buf[2, 8192 + 63 * 4 : 8448].view(torch.float32), scales[1])
        got_keys, got_scales = get_index_k_scale_buffer(buf, loc)
        assert torch.equal(got_keys.view(torch.uint8), keys.view(torch.uint8)) and torch.equal(got_scales, scales[:, 0])
        with pytest.raises(ContractError, match="loc must be from 0 to 191"):
            get_index_k_scale_buffer(buf.cpu(), torch.tensor([192]))

    @pytest.mark.parametrize("implementation", SPARSE)
    def test_ragged_logits(self, implementation, device, generator) -> None:
        heads, keys = 32, 90
        q, q_scale = act_quant(torch.randn(4, heads, 128, generator=generator).to(device))
        k, k_scale = act_quant(torch.randn(keys, 128, generator=generator).to(device))
        weights = torch.randn(4, heads, generator=generator).to(device) * q_scale[..., 0]
        first, end = (torch.tensor(x, dtype=torch.int32, device=device) for x in ([0, 3, 70, 20], [3, 90, 70, 64]))
        logits = fp8_mqa_logits(q, (k, k_scale), weights, first, end, implementation=implementation)
        exact = torch.einsum("rhd,kd->rhk", q.double(), k.double() * k_scale.double()).relu()
        wanted = torch.einsum("rhk,rh->rk", exact, weights.double())
        column = torch.arange(keys, device=device)
        wanted[(column < first[:, None]) | (column >= end[:, None])] = -math.inf
        assert_close(logits, wanted, 1e-5)

    @pytest.mark.parametrize("implementation", SPARSE)
    def test_paged_logits_of_drafts(self, implementation, device, generator) -> None:
        """Two queries per request: the last sees all of its request's keys, the one before it one fewer."""
        pages, heads, lens = 5, 16, [130, 40]
        k, k_scale = act_quant(torch.randn(pages * 64, 128, generator=generator).to(device))
        cache = torch.zeros(pages, 8448, dtype=torch.uint8, device=device)
        set_index_k_scale_buffer(cache, torch.arange(pages * 64, device=device), k, k_scale)
        table = torch.tensor([[3, 1, 4], [2, 99, 99]], dtype=torch.int32, device=device)
        q, _ = act_quant(torch.randn(2, 2, heads, 128, generator=generator).to(device))
        weights = torch.randn(4, heads, generator=generator).to(device) / 128
        given = (q, cache.view(pages, 64, 1, 132), weights)
        context = torch.tensor(lens, dtype=torch.int32, device=device)
        logits = fp8_paged_mqa_logits(*given, context, table, 192, True, implementation=implementation)
        each = torch.tensor([[129, 130], [39, 40]], dtype=torch.int32, device=device)
        same = fp8_paged_mqa_logits(*given, each, table, 192, True, implementation=implementation)
        assert_close(same, logits, 0)
        wide = k.double() * k_scale.double()
        for row, length in enumerate([129, 130, 39, 40]):
            own = table[row // 2, torch.arange(length, device=device) // 64].long() * 64
            keys = wide[own + torch.arange(length, device=device) % 64]
            wanted = weights[row].double() @ (q.flatten(0, 1)[row].double() @ keys.T).relu()
            assert_close(logits[row, :length], wanted, 1e-4)
            assert (logits[row, length:] == -math.inf).all()

    @pytest.mark.parametrize("implementation", SPARSE)
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_logits_of_unquantised_keys_by_slot(self, implementation, dtype, device, generator) -> None:
        """Requests of 1, 3 and 2 rows; slots out of order, and past a request's last rubbish in the table."""
        heads, dim, lens, owner = 5, 24, [70, 8, 9, 10, 64, 65], [0, 1, 1, 1, 2, 2]
        q = torch.randn(6, heads, dim, generator=generator).to(device, dtype)
        keys = torch.randn(200, dim, generator=generator).to(device, dtype)
        table = torch.full((3, 80), 10**6, dtype=torch.int32)
        for request, most in enumerate([70, 10, 65]):
            table[request, :most] = torch.randperm(200, generator=generator)[:most]
        weights = torch.randn(6, heads, generator=generator).to(device)
        lengths, request_of = (torch.tensor(x, dtype=torch.int32, device=device) for x in (lens, owner))
        given = (q, keys, weights, lengths, table.to(device))
        logits = slot_mqa_logits(*given, request_of, 72, implementation=implementation)
        assert logits.shape == (6, 72)
        for row, length in enumerate(lens):
            own = keys[table[owner[row], :length].long().to(device)].double()
            wanted = weights[row].double() @ (q[row].double() @ own.T).relu()
            assert_close(logits[row, :length], wanted, 1e-5)
        apart = slot_mqa_logits(*given[:4], table[owner].to(device), width=72, implementation=implementation)
        for row, length in enumerate(lens):
            assert_close(apart[row, :length], logits[row, :length], 1e-5)

    @pytest.mark.parametrize("implementation", SPARSE)
    @pytest.mark.parametrize("page_size", [1, 64])
    def test_logits_of_rows_of_any_request_against_pages(self, implementation, page_size, device, generator) -> None:
        """As above over FP8 pages."""
        heads, lens, owner, slots = 5, [70, 8, 9, 10, 64, 65], [0, 1, 1, 1, 2, 2], 384
        q, q_scale = act_quant(torch.randn(6, heads, 128, generator=generator).to(device))
        weights = torch.randn(6, heads, generator=generator).to(device) * q_scale[..., 0]
        k, k_scale = act_quant(torch.randn(slots, 128, generator=generator).to(device))
        buf = torch.zeros(slots // page_size, page_size * 132, dtype=torch.uint8, device=device)
        set_index_k_scale_buffer(buf, torch.arange(slots, device=device), k, k_scale, page_size)
        columns = -(-72 // page_size)
        table = torch.full((3, columns), 10**6, dtype=torch.int32)
        for request, most in enumerate([70, 10, 65]):
            used = -(-most // page_size)
            table[request, :used] = torch.randperm(len(buf), generator=generator)[:used]
        lengths, request_of = (torch.tensor(x, dtype=torch.int32, device=device) for x in (lens, owner))
        given = (q, buf, weights, lengths, table.to(device))
        logits = page_mqa_logits(*given, request_of, 72, implementation=implementation)
        assert logits.shape == (6, 72)
        wide = k.double() * k_scale.double()
        for row, length in enumerate(lens):
            position = torch.arange(length)
            at = table[owner[row], position // page_size].long() * page_size + position % page_size
            wanted = weights[row].double() @ (q[row].double() @ wide[at.to(device)].T).relu()
            assert_close(logits[row, :length], wanted, 1e-4)
        apart = page_mqa_logits(*given[:4], table[owner].to(device), width=72, implementation=implementation)
        for row, length in enumerate(lens):
            assert_close(apart[row, :length], logits[row, :length], 1e-5)

    def test_refusals_of_pages(self) -> None:
        q, weights = torch.zeros(2, 4, 128).to(torch.float8_e4m3fn), torch.zeros(2, 4)
        buf, lengths, table = (
            torch.zeros(3, 8448, dtype=torch.uint8),
            torch.tensor([3, 65]).int(),
            torch.tensor([[0, 7]]),
        )
        owner = torch.zeros(2).int()
        with pytest.raises(ContractError, match="buf must be of pages of whole 132 bytes; got 8440"):
            page_mqa_logits(q, buf[:, :8440], weights, lengths, table.int(), owner)
        with pytest.raises(ContractError, match=r"page_table must be from 0 to 2; got page_table\[0, 1\] = 7"):
            page_mqa_logits(q, buf, weights, lengths, table.int(), owner)
        page_mqa_logits(q, buf, weights, lengths.clamp(max=64), table.int(), owner)

    def test_refusals_of_slots(self) -> None:
        q, keys, weights = torch.zeros(2, 4, 16), torch.zeros(9, 16), torch.zeros(2, 4)
        lengths, table = torch.tensor([3, 4]).int(), torch.zeros(1, 5).int()
        with pytest.raises(ContractError, match="page_table_1 must be of 2 rows, one per row of q; got 1"):
            slot_mqa_logits(q, keys, weights, lengths, table)
        owner = torch.zeros(2).int()
        with pytest.raises(ContractError, match=r"lengths must be from 0 to 3; got lengths\[1\] = 4"):
            slot_mqa_logits(q, keys, weights, lengths, table, owner, 3)
        with pytest.raises(ContractError, match="k_buffer must be float32, as q is; got float16"):
            slot_mqa_logits(q, keys.half(), weights, lengths, table, owner)
        with pytest.raises(ContractError, match=r"page_table_1 must be from 0 to 8; got page_table_1\[0, 3\] = 9"):
            slot_mqa_logits(q, keys, weights, lengths, torch.tensor([[0, 1, 2, 9, -7]]).int(), owner)


class TestTopk:
    def scores(self, device, generator):
        """Rows with ties, with all equal, with infinities, short ones and an empty one."""
        score = torch.randn(6, 1500, generator=generator)
        score[1], score[2], score[3, :5] = score[1].round(), -1.0, -math.inf
        lens, starts = [1500, 1300, 900, 20, 3, 0], [0, 100, 5, 0, 9, 1]
        return score.to(device), *(torch.tensor(x, dtype=torch.int32, device=device) for x in (lens, starts))

    @pytest.mark.parametrize("implementation", SPARSE)
    def test_is_the_set_of_the_best(self, implementation, device, generator) -> None:
        score, lens, starts = self.scores(device, generator)
        best = fast_topk_v2(score, lens, 24, starts, implementation=implementation)
        for row, (length, first) in enumerate(zip(lens.tolist(), starts.tolist(), strict=True)):
            chosen = best[row][best[row] >= 0].long()
            assert len(chosen) == len(set(chosen.tolist())) == min(24, length) and (best[row, length:] == -1).all()
            own = score[row, first : first + length]
            wanted = own.sort(descending=True).values[:24]
            assert_close(own[chosen].sort(descending=True).values, wanted, 0)
            for value in own[chosen].unique() if length else ():
                ties = torch.nonzero(own == value).flatten()
                taken = chosen[own[chosen] == value].sort().values
                assert torch.equal(taken, ties[: len(taken)]), "of equal scores the earlier ones"

    def test_transforms(self, implementation, device, generator) -> None:
        score, lens, starts = self.scores(device, generator)
        table = torch.randint(0, 10**6, (3, 1500), generator=generator).int().to(device)
        best = fast_topk_v2(score, lens, 24, starts, implementation="reference")
        decode = transform_index_page_table_decode(table, best[:3], implementation=implementation)
        assert torch.equal(decode, torch.where(best[:3] < 0, -1, table.gather(1, best[:3].clamp(min=0).long())))
        indptr = torch.tensor([0, 1, 4, 5], dtype=torch.int32, device=device)
        given = (score[:5], lens[:5], table, indptr, 24, starts[:5])
        fused = fast_topk_transform_fused(*given, implementation=implementation)
        assert torch.equal(fast_topk_transform_fused(*given, implementation="torch"), fused)
        prefill = transform_index_page_table_prefill(table, best, [1, 3, 1], implementation=implementation)
        assert torch.equal(fused, prefill[:5]) and (prefill[5] == -1).all()
        offsets = torch.tensor([0, 10, 20, 30, 40], dtype=torch.int32, device=device)
        ragged = fast_topk_transform_ragged_fused(
            *(score[:5], lens[:5], offsets, 24, starts[:5]), implementation=implementation
        )
        torchs = fast_topk_transform_ragged_fused(
            *(score[:5], lens[:5], offsets, 24, starts[:5]), implementation="torch"
        )
        assert torch.equal(torchs, ragged)
        assert torch.equal(ragged, torch.where(best[:5] < 0, -1, best[:5] + offsets[:, None]))

    def test_refusals(self) -> None:
        score, lens = torch.zeros(1, 4), torch.tensor([4]).int()
        with pytest.raises(ContractError, match="lengths must be such that a row ends"):
            fast_topk_v2(score, lens + 1, 2)
        with pytest.raises(ContractError, match="score must be a number"):
            fast_topk_v2(score / 0, lens, 2)
        with pytest.raises(ContractError, match="topk_indices must be below 4"):
            transform_index_page_table_decode(torch.zeros(1, 4).int(), torch.tensor([[4]]).int())


def wanted_sparse(q, keys, chosen, scale, sink=None):
    """O, largest score and LSE of one query over `keys[chosen]`, in float64."""
    k = keys[chosen].double().cpu()
    scores = q.double().cpu() @ k.T * scale
    lse = scores.logsumexp(-1)
    o = scores.softmax(-1) @ k[:, :512]
    if sink is not None:
        o = o / (1 + (sink.double().cpu() - lse).exp())[:, None]
    return o, scores.amax(-1), lse


class TestSparseMla:
    @pytest.mark.parametrize("implementation", SPARSE)
    def test_prefill(self, implementation, device, generator) -> None:
        q = torch.randn(3, 20, 576, generator=generator).bfloat16().to(device)
        kv = torch.randn(80, 1, 576, generator=generator).bfloat16().to(device)
        indices = torch.stack([torch.randperm(80, generator=generator)[:48] for _ in range(3)]).int()
        indices[0, 5:40] = -1
        indices[1, ::3] = 80
        indices[2] = -1
        length = torch.tensor([48, 40, 48], dtype=torch.int32)
        sink = torch.randn(20, generator=generator)
        for with_sink in (None, sink.to(device)):
            o, top, lse = flash_mla_sparse_fwd(
                *(q, kv, indices[:, None].to(device), 192**-0.5),
                attn_sink=with_sink,
                topk_length=length.to(device),
                implementation=implementation,
            )
            for token in (0, 1):
                row = indices[token, : length[token]]
                chosen = row[(row >= 0) & (row < 80)].long().to(device)
                wanted = wanted_sparse(q[token], kv[:, 0], chosen, 192**-0.5, with_sink)
                assert_close(o[token], wanted[0], ROUNDING[torch.bfloat16])
                assert_close(top[token], wanted[1], 1e-5)
                assert_close(lse[token], wanted[2], 1e-5)
            assert not o[2].any() and (top[2] == -math.inf).all() and (lse[2] == math.inf).all()

    @pytest.mark.parametrize("implementation", SPARSE)
    def test_decode_over_records(self, implementation, device, generator) -> None:
        """Page 64, two query tokens, 300 indices: on a GPU their keys are split."""
        pages, heads = 6, 16
        k = torch.randn(pages, 64, 1, 576, generator=generator).bfloat16().to(device)
        cache = quantize_k_cache(k, implementation="reference")
        keys = dequantize_k_cache(cache, implementation="reference").flatten(0, 2)
        q = torch.randn(2, 2, heads, 576, generator=generator).bfloat16().to(device)
        indices = torch.stack([torch.randperm(pages * 64, generator=generator)[:300] for _ in range(4)]).int()
        indices[1, 100:] = -1
        indices[2] = -1
        sink = torch.randn(heads, generator=generator).to(device)
        o, lse = flash_mla_with_kvcache(
            *(q, cache, None, None, 512, None, None, 192**-0.5),
            is_fp8_kvcache=True,
            indices=indices.view(2, 2, 300).to(device),
            attn_sink=sink,
            implementation=implementation,
        )
        assert o.shape == (2, 2, heads, 512) and lse.shape == (2, heads, 2)
        for token in (0, 1, 3):
            chosen = indices[token][indices[token] >= 0].long().to(device)
            wanted = wanted_sparse(q.flatten(0, 1)[token], keys, chosen, 192**-0.5, sink)
            assert_close(o.flatten(0, 1)[token], wanted[0], ROUNDING[torch.bfloat16])
            assert_close(lse[token // 2, :, token % 2], wanted[2], 2e-3)
        assert not o[1, 0].any() and (lse[1, :, 0] == math.inf).all()

    @pytest.mark.parametrize("records", [True, False])
    @pytest.mark.parametrize("implementation", SPARSE)
    def test_a_second_cache_joins_the_softmax(self, implementation, records, device, generator) -> None:
        """As one cache that holds both: pages of 64 and of 2, their own lengths, a query with keys in only one."""

        def drawn(pages: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
            k = torch.randn(pages, size, 1, 576, generator=generator).bfloat16().to(device)
            if not records:
                return k, k.flatten(0, 2)
            cache = quantize_k_cache(k, implementation="reference")
            return cache, dequantize_k_cache(cache, implementation="reference").flatten(0, 2)

        (cache, keys), (extra, more) = drawn(3, 64), drawn(50, 2)
        q = torch.randn(2, 2, 16, 576, generator=generator).bfloat16().to(device)
        indices = torch.stack([torch.randperm(192, generator=generator)[:80] for _ in range(4)]).int()
        others = torch.stack([torch.randperm(100, generator=generator)[:40] for _ in range(4)]).int()
        indices[1], others[2], indices[3], others[3, ::3] = -1, 100, -1, -1
        indices[0, 5:9] = -1
        lens = torch.tensor([60, 80], dtype=torch.int32), torch.tensor([40, 7], dtype=torch.int32)
        sink = torch.randn(16, generator=generator).to(device)
        o, lse = flash_mla_with_kvcache(
            *(q, cache, None, None, 512, None, None, 192**-0.5),
            is_fp8_kvcache=records,
            indices=indices.view(2, 2, 80).to(device),
            attn_sink=sink,
            extra_k_cache=extra,
            extra_indices_in_kvcache=others.view(2, 2, 40).to(device),
            topk_length=lens[0].to(device),
            extra_topk_length=lens[1].to(device),
            implementation=implementation,
        )
        both = torch.cat([keys, more])
        for token in range(4):
            own, other = indices[token, : lens[0][token // 2]], others[token, : lens[1][token // 2]]
            chosen = torch.cat([own[own >= 0], other[(other >= 0) & (other < 100)] + 192]).long().to(device)
            wanted = wanted_sparse(q.flatten(0, 1)[token], both, chosen, 192**-0.5, sink)
            assert_close(o.flatten(0, 1)[token], wanted[0], ROUNDING[torch.bfloat16])
            # The wanted keys are records rounded to bfloat16; some queries have few keys to average that over.
            assert_close(lse[token // 2, :, token % 2], wanted[2], 1.5e-2 if records else 1e-4)

    def test_refusals_of_a_second_cache(self) -> None:
        q, k, indices = torch.zeros(1, 1, 2, 576).half(), torch.zeros(4, 1, 1, 576).half(), torch.zeros(1, 1, 3).int()
        given = (q, k, None, None, 512, None)
        with pytest.raises(ContractError, match="extra_k_cache must be None without the others"):
            flash_mla_with_kvcache(*given, indices=indices, extra_k_cache=k)
        with pytest.raises(ContractError, match="extra_topk_length must be None without the others"):
            flash_mla_with_kvcache(*given, indices=indices, extra_topk_length=torch.ones(1).int())
        both = {"indices": indices, "extra_indices_in_kvcache": indices}
        with pytest.raises(ContractError, match=r"extra_k_cache must be torch\.float16; got torch\.bfloat16"):
            flash_mla_with_kvcache(*given, **both, extra_k_cache=k.bfloat16())
        with pytest.raises(ContractError, match="extra_k_cache must be finite in every slot"):
            flash_mla_with_kvcache(*given, **both, extra_k_cache=k / 0)
        with pytest.raises(ContractError, match="extra_k_cache must be None without indices"):
            flash_mla_with_kvcache(*given, extra_k_cache=k)

    @pytest.mark.parametrize("implementation", ["torch", "triton"])
    def test_dense_decode_over_an_8_bit_cache(self, implementation, device, generator) -> None:
        lens = torch.tensor([70, 5], dtype=torch.int32, device=device)
        table = torch.tensor([[2, 0], [1, 7]], dtype=torch.int32, device=device)
        k = torch.randn(3, 64, 1, 576, generator=generator).to(E4M3).to(device)
        q = torch.randn(2, 1, 16, 576, generator=generator).to(E4M3).to(device)
        factors = [torch.tensor([x], device=device) for x in (0.5, 0.25)]
        o, lse = flash_mla_with_kvcache(
            *(q, k, table, lens, 512, None, None, 192**-0.5),
            is_fp8_kvcache=True,
            descale_q=factors[0],
            descale_k=factors[1],
            implementation=implementation,
        )
        flat = k.float().flatten(0, 2) * 0.25
        for request, slots in enumerate(([*range(128, 192), *range(6)], list(range(64, 69)))):
            wanted = wanted_sparse(q[request, 0].float() * 0.5, flat, torch.tensor(slots, device=device), 192**-0.5)
            assert_close(o[request, 0], wanted[0], ROUNDING[torch.bfloat16])
            assert_close(lse[request, :, 0], wanted[2], 1e-4)

    def test_refusals(self) -> None:
        q, kv, indices = torch.zeros(1, 2, 576).half(), torch.zeros(4, 1, 576).half(), torch.zeros(1, 1, 3).int()
        with pytest.raises(ContractError, match="kv must be float16, as q is"):
            flash_mla_sparse_fwd(q, kv.bfloat16(), indices, 0.1)
        with pytest.raises(ContractError, match="kv must be finite in every slot that indices name"):
            flash_mla_sparse_fwd(q, kv / 0, indices, 0.1)
        with pytest.raises(ContractError, match="attn_sink must be of shape"):
            flash_mla_sparse_fwd(q, kv, indices, 0.1, attn_sink=torch.zeros(3))
        with pytest.raises(ContractError, match="is_fp8_kvcache must be False"):
            flash_mla_with_kvcache(
                *(q[:, None], kv[:, None], None, None, 512, None), is_fp8_kvcache=True, indices=indices
            )
        with pytest.raises(ContractError, match="attn_sink must be None without indices"):
            flash_mla_with_kvcache(*(q[:, None], kv[:, None], None, None, 512, None), attn_sink=torch.zeros(2))
