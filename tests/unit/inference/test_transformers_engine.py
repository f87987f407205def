"""T19 and T27: what the engine samples, with which weights, and that its logprobs are those of a fresh forward pass."""

import asyncio

import pytest
import torch

from art_core.errors import InputError, ProviderError
from art_core.inference.protocol import Engine, Interrupted, SamplingParams
from art_core.inference.transformers_engine import TransformersEngine
from art_core.models import decoding
from art_core.models.attention import segment_attention
from art_core.models.config import LoraConfig
from art_core.models.lane_attention import lane_attention
from art_core.models.lora import attach
from art_core.models.prefix_cache import new_buffers
from art_core.trajectory.graph import PolicyVersion
from tests.tiny import FAMILIES, tiny_model
from tests.unit.rollout.doubles import until


def reference_logprobs(model, prompt, ids, temperature=1.0):
    """log_softmax(logits / T) of ``ids`` after ``prompt`` by one plain forward of the whole sequence."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*prompt, *ids]])).logits[0].double() / temperature
    rows = torch.log_softmax(logits[len(prompt) - 1 : -1], dim=-1)
    return rows[torch.arange(len(ids)), torch.tensor(ids)]


async def sample_all(engine, prompts, params, keys=None):
    keys = keys or range(len(prompts))
    return await asyncio.gather(*(engine.sample(p, params, None, k) for p, k in zip(prompts, keys, strict=True)))


def prompts_with_shared_prefix(count, *, shared=40, siblings=2):
    prefix = [(7 * i) % 290 for i in range(shared)]
    return [[*prefix, *[10 + g] * (1 + g % 3), 5] for g in range(count) for _ in range(siblings)]


@pytest.fixture
async def engine(request):
    engine = TransformersEngine(tiny_model(getattr(request, "param", "llama")))
    yield engine
    await engine.close()


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
async def test_t27_logprobs_equal_a_fresh_forward_of_the_same_ids(family, deterministic):
    model = tiny_model(family)
    engine = TransformersEngine(model, deterministic=deterministic)
    prompts = prompts_with_shared_prefix(3, shared=80)
    completions = await sample_all(engine, prompts, SamplingParams(max_tokens=30, temperature=1.0))
    await engine.close()
    for prompt, completion in zip(prompts, completions, strict=True):
        expected = reference_logprobs(model, prompt, completion.ids)
        assert torch.tensor(completion.logprobs).double() == pytest.approx(expected, abs=2e-4)


async def test_logprobs_are_taken_at_the_sampling_temperature(engine):
    model = tiny_model()
    [completion] = await sample_all(engine, [[1, 2, 3]], SamplingParams(max_tokens=12, temperature=0.7))
    expected = reference_logprobs(model, [1, 2, 3], completion.ids, temperature=0.7)
    assert torch.tensor(completion.logprobs).double() == pytest.approx(expected, abs=1e-4)


async def test_a_prompt_shared_by_siblings_is_computed_once(engine):
    prompts = prompts_with_shared_prefix(1, shared=99, siblings=8)
    await sample_all(engine, prompts, SamplingParams(max_tokens=1))
    assert engine.computed_tokens == 101


async def test_a_later_prompt_reuses_the_prefix_of_an_earlier_one(engine):
    first, second = [*range(100), 200], [*range(100), 201, 202]
    await sample_all(engine, [first, first], SamplingParams(max_tokens=1))
    before = engine.computed_tokens
    await sample_all(engine, [second], SamplingParams(max_tokens=1))
    assert engine.computed_tokens - before == 2


async def test_the_draw_depends_on_the_key_not_on_the_company(engine):
    prompts = prompts_with_shared_prefix(4, siblings=1)
    params = SamplingParams(max_tokens=8)
    together = await sample_all(engine, prompts, params, keys=[11, 12, 13, 14])
    [alone] = await sample_all(engine, prompts[2:3], params, keys=[13])
    assert alone.ids == together[2].ids


async def test_greedy_takes_the_most_likely_id_and_siblings_agree(engine):
    model = tiny_model()
    completions = await sample_all(engine, [[4, 5, 6]] * 2, SamplingParams(max_tokens=5, temperature=0))
    logits = model(input_ids=torch.tensor([[4, 5, 6]])).logits[0, -1]
    assert completions[0].ids == completions[1].ids
    assert completions[0].ids[0] == int(logits.argmax())


async def test_a_stop_id_ends_the_completion_and_is_part_of_it(engine):
    [free] = await sample_all(engine, [[4, 5, 6]], SamplingParams(max_tokens=6, temperature=0))
    stop = free.ids[3]
    [stopped] = await sample_all(engine, [[4, 5, 6]], SamplingParams(max_tokens=6, temperature=0, stop_ids={stop}))
    assert stopped.ids == free.ids[: free.ids.index(stop) + 1]
    assert stopped.finish_reason == "stop"
    assert free.finish_reason == "length"


async def test_rows_beyond_the_batch_are_admitted_as_others_finish():
    engine = TransformersEngine(tiny_model(), max_rows=3)
    prompts = prompts_with_shared_prefix(5, siblings=2)
    completions = await sample_all(engine, prompts, SamplingParams(max_tokens=7))
    await engine.close()
    model = tiny_model()
    assert len(completions) == 10
    for prompt, completion in zip(prompts, completions, strict=True):
        expected = reference_logprobs(model, prompt, completion.ids)
        assert torch.tensor(completion.logprobs).double() == pytest.approx(expected, abs=2e-4)


async def test_a_completion_longer_than_the_first_buffers_stays_exact(engine):
    [completion] = await sample_all(engine, [[9, 8, 7]], SamplingParams(max_tokens=300))
    expected = reference_logprobs(tiny_model(), [9, 8, 7], completion.ids)
    assert len(completion.ids) == 300
    assert torch.tensor(completion.logprobs).double() == pytest.approx(expected, abs=2e-4)


def adapter_on_disk(directory, *, seed):
    """A LoRA with a B that is not zero, and the model it belongs to."""
    model = attach(tiny_model(), LoraConfig(rank=4, alpha=8), seed=seed)
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.2)
    model.save_pretrained(directory)
    return model.eval()


async def test_t19_a_loaded_adapter_samples_what_the_unfolded_one_would(engine, tmp_path):
    unfolded = adapter_on_disk(tmp_path, seed=1)
    await engine.load(PolicyVersion("default", 1), tmp_path)
    [completion] = await sample_all(engine, [[3, 1, 4, 1, 5]], SamplingParams(max_tokens=20))
    expected = reference_logprobs(unfolded, [3, 1, 4, 1, 5], completion.ids)
    assert torch.tensor(completion.logprobs).double() == pytest.approx(expected, abs=1e-3)
    assert completion.spans[0].version == PolicyVersion("default", 1)


async def test_the_base_weights_are_untouched_and_still_served(tmp_path):
    model = tiny_model()
    before = {name: p.clone() for name, p in model.named_parameters()}
    engine = TransformersEngine(model)
    adapter_on_disk(tmp_path, seed=1)
    params, base = SamplingParams(max_tokens=6, temperature=0), PolicyVersion("default", 0)
    first = await engine.sample([1, 2, 3], params, None, 0)
    await engine.load(PolicyVersion("default", 1), tmp_path)
    changed = await engine.sample([1, 2, 3], params, None, 0)
    again = await engine.sample([1, 2, 3], params, base, 0)
    await engine.close()
    assert first.logprobs == again.logprobs != changed.logprobs
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


async def test_a_request_keeps_the_version_it_began_with(engine, tmp_path):
    adapter_on_disk(tmp_path, seed=1)
    running = asyncio.create_task(engine.sample([1, 2, 3], SamplingParams(max_tokens=200), None, 0))
    await asyncio.sleep(0)
    await engine.load(PolicyVersion("default", 1), tmp_path)
    assert (await running).spans[0].version == PolicyVersion("default", 0)


async def test_an_adapter_that_fits_nothing_is_refused(engine, tmp_path):
    attach(tiny_model("gemma3"), LoraConfig(rank=2)).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="does not fit"):
        await engine.load(PolicyVersion("default", 1), tmp_path)


async def test_an_unknown_version_is_named(engine):
    with pytest.raises(ProviderError, match="default@7 is not loaded; loaded ones are default@0"):
        await engine.sample([1], SamplingParams(max_tokens=1), PolicyVersion("default", 7), 0)


async def test_a_prompt_beyond_the_context_is_refused(engine):
    with pytest.raises(ProviderError, match="exceed the context of 512"):
        await engine.sample([1] * 510, SamplingParams(max_tokens=3), None, 0)


async def test_cancelling_a_call_frees_its_row(engine):
    task = asyncio.create_task(engine.sample([1, 2, 3], SamplingParams(max_tokens=400), None, 0))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await engine.drain()
    assert len((await engine.sample([1, 2, 3], SamplingParams(max_tokens=2), None, 0)).ids) == 2


async def test_a_cancelled_call_gives_the_tokens_drawn_so_far(engine):
    params = SamplingParams(max_tokens=400)
    task = asyncio.create_task(engine.sample([1, 2, 3], params, None, 0))
    await until(lambda: engine._batch.rows and len(engine._batch.rows[0].ids) >= 3)
    task.cancel()
    with pytest.raises(Interrupted) as caught:
        await task
    drawn = caught.value.completion
    whole = await engine.sample([1, 2, 3], params, None, 0)
    assert drawn.finish_reason == "abort"
    assert 3 <= len(drawn.ids) < 400
    assert drawn.ids == whole.ids[: len(drawn.ids)]
    assert drawn.logprobs == pytest.approx(whole.logprobs[: len(drawn.ids)], abs=1e-5)


async def test_a_call_cancelled_before_its_first_token_lost_nothing(engine):
    task = asyncio.create_task(engine.sample([1, 2, 3], SamplingParams(max_tokens=4), None, 0))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert not isinstance(caught.value, Interrupted)


async def test_a_closed_engine_says_so(engine):
    await engine.close()
    with pytest.raises(ProviderError, match="closed"):
        await engine.sample([1], SamplingParams(max_tokens=1), None, 0)


async def test_t25_a_deterministic_completion_has_the_same_bits_whenever_it_is_asked_for(tmp_path):
    adapter_on_disk(tmp_path, seed=1)
    prompts = [[*range(1, 3 + 7 * (number % 4))] for number in range(24)]
    params = SamplingParams(max_tokens=20)

    async def draw(number, delay):
        await asyncio.sleep(delay)
        completion = await engine.sample(prompts[number], params, None, number)
        return completion.ids, completion.logprobs

    found = []
    for delays in ([0.0] * 24, [0.003 * (number * 7 % 24) for number in range(24)], [0.2] + [0.0] * 23):
        engine = TransformersEngine(tiny_model(), deterministic=True)
        await engine.load(PolicyVersion("default", 1), tmp_path)
        found.append(await asyncio.gather(*(draw(number, delay) for number, delay in enumerate(delays))))
        await engine.close()
    assert found[0] == found[1] == found[2]


async def test_a_deterministic_engine_gives_the_same_bits_before_and_after_an_adapter_was_folded(tmp_path):
    adapter_on_disk(tmp_path, seed=1)
    engine = TransformersEngine(tiny_model(), deterministic=True)
    params, base = SamplingParams(max_tokens=12), PolicyVersion("default", 0)
    first = await engine.sample([1, 2, 3], params, base, 0)
    await engine.load(PolicyVersion("default", 1), tmp_path)
    await engine.sample([1, 2, 3], params, None, 0)
    again = await engine.sample([1, 2, 3], params, base, 0)
    await engine.close()
    assert (first.ids, first.logprobs) == (again.ids, again.logprobs)


async def test_it_is_an_engine(engine):
    assert isinstance(engine, Engine)


async def test_running_out_of_memory_for_more_rows_fails_these_and_leaves_the_engine_whole(monkeypatch):
    engine = TransformersEngine(tiny_model())
    params = SamplingParams(max_tokens=4)
    expected = await sample_all(engine, [[1, 2], [3, 4]], params)

    def scarce(model, rows, slots):
        if rows > 2:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
        return new_buffers(model, rows, slots)

    monkeypatch.setattr(decoding, "new_buffers", scarce)
    failed = await asyncio.gather(*(engine.sample([5, n], params, None, n) for n in range(9)), return_exceptions=True)
    assert all("can't allocate memory" in str(error) for error in failed)
    again = await sample_all(engine, [[1, 2], [3, 4]], params)
    await asyncio.wait_for(engine.close(), 10)
    assert [completion.ids for completion in again] == [completion.ids for completion in expected]


async def test_the_memory_of_rows_is_given_back_with_their_weights(engine, tmp_path):
    await sample_all(engine, [[1, 2, 3]] * 8, SamplingParams(max_tokens=4))
    assert engine._batch._buffers[0][0].shape[0] == 8
    adapter_on_disk(tmp_path, seed=1)
    await engine.load(PolicyVersion("default", 1), tmp_path)
    await sample_all(engine, [[1, 2, 3]], SamplingParams(max_tokens=4))
    assert engine._batch._buffers[0][0].shape[0] == 1


@pytest.mark.parametrize("refusing", [segment_attention, lane_attention])
def test_attention_with_sinks_is_refused(refusing):
    query = torch.zeros(1, 2, 1, 4)
    plan = {"segment_plan": None} if refusing is segment_attention else {"lane_plan": None}
    with pytest.raises(InputError, match="attention has sinks"):
        refusing(torch.nn.Module(), query, query, query, None, s_aux=torch.zeros(2), **plan)
