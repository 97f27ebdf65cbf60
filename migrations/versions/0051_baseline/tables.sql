-- Tables and indexes of 0.2.0.

create extension if not exists vector;

-- Text, site and size of a document, as indexes and quotas hold them. The functions name nothing outside of pg_catalog:
-- PostgreSQL builds and restores indexes with no other schema in sight.

create function document_words(partition_id integer, name text, external_id text) returns tsvector
language sql immutable parallel safe cost 1000 as $$
    with plain as materialized (
        select partition_id || ':' as p, lower(normalize(left(name, 1000), nfkc)) || chr(10) || case
            when external_id = name then '' else lower(normalize(left(external_id, 2000), nfkc)) end as t
    )
    select array_to_tsvector(array_agg(p || substr(t, i, 3))) from plain, generate_series(1, length(t)) i
$$;

create function words_query(partition_id integer, words text[]) returns tsquery
language sql immutable parallel safe as $$
    select string_agg(
        '''' || replace(replace(partition_id || ':' || substr(w, i, 3), '\', '\\'), '''', '''''') || ''''
        || case when length(w) < 3 then ':*' else '' end, ' & ')::tsquery
    from unnest(words) sent, lower(normalize(sent, nfkc)) w, generate_series(1, greatest(length(w) - 2, 1)) i
$$;

create function document_site(partition_id integer, external_id text) returns text
language sql immutable parallel safe strict as $$
    select partition_id || ':' || substring(lower(external_id) from '^https?://(?:[^/?#@]*@)?([^/?#]+)')
$$;

create function document_size(properties jsonb, accepted_bytes bigint) returns bigint
language sql immutable parallel safe
return greatest(coalesce((properties ->> 'fileSize')::bigint, 0), coalesce(accepted_bytes, 0));

create table audit_entries (
    organization_id text,
    created_at timestamptz default now(),
    id text,
    key_id text,
    key_name text,
    principal text,
    method text not null,
    route text not null,
    object_type text not null,
    object_id text,
    status smallint not null,
    request_id text,
    source text not null,
    subject text,
    object_ids text[],
    object_count integer,
    changes jsonb,
    client_request_id text,
    primary key (organization_id, created_at, id),
    constraint audit_source check (source in ('API', 'CLI'))
);
create index audit_entries_by_age on audit_entries using brin (created_at);

create table chunks (
    id bigint generated always as identity primary key,
    partition_id integer not null,
    document_id text not null,
    generation bigint not null,
    index integer not null,
    start integer not null,
    "end" integer not null,
    page integer,
    tokens integer not null,
    content text not null,
    embedding_key bytea not null,
    header text not null default '',
    rows jsonb
);
create unique index chunk_of_generation on chunks (document_id, generation, index);
create index chunks_by_embedding on chunks (partition_id, embedding_key);

create table connection_documents (
    document_id text,
    connection_id text,
    listed_at timestamptz not null default now(),
    primary key (document_id, connection_id)
);
create index documents_by_connection on connection_documents (connection_id, document_id);

create table dispatcher_loops (
    dispatcher text,
    loop text,
    started_at timestamptz not null default now(),
    succeeded_at timestamptz,
    reason text,
    recorded_at timestamptz not null default now(),
    primary key (dispatcher, loop)
);

-- A vector of up to 3,072 dimensions stays in its row's page: a scan reads no second table.
create table embeddings (
    partition_id integer,
    key bytea,
    values halfvec not null,
    primary key (partition_id, key)
) with (toast_tuple_target=8160);

create table event_feeds (
    name text primary key
);

create table files_folder (
    single boolean default true primary key,
    id text not null,
    constraint files_folder_is_one check (single)
);

create table idempotent_answers (
    caller text,
    key text,
    request_hash bytea not null,
    sealed bytea,
    created_at timestamptz not null default now(),
    primary key (caller, key)
);
create index idempotent_answers_by_age on idempotent_answers (created_at);

-- Rows change again and again: half of each page is for their next versions.
create table metric_counts (
    organization_id text,
    name text,
    labels text,
    part text,
    value double precision not null,
    primary key (organization_id, name, labels, part)
) with (fillfactor=50);

create table organizations (
    id text primary key,
    name text not null,
    plan text not null default 'custom',
    requests_per_minute integer not null default 10000,
    namespace_limit integer,
    tenants text not null default 'open',
    tenant_required boolean not null default false,
    created_at timestamptz not null default now(),
    quotas jsonb not null default '{}',
    counted boolean not null default false,
    counted_at timestamptz
);
create index organizations_counted on organizations (id) where counted;

create table api_keys (
    id text primary key,
    organization_id text not null references organizations (id) on delete cascade,
    name text not null,
    hash bytea not null unique,
    hint text not null,
    scopes text[] not null,
    namespace_id text,
    tenant text,
    created_at timestamptz not null default now(),
    revoked_at timestamptz,
    principal text,
    principal_required boolean not null default false
);
create index ix_api_keys_organization_id on api_keys (organization_id);

create table breakers (
    key text primary key,
    organization_id text not null references organizations (id) on delete cascade,
    name text not null,
    reason text not null,
    failures integer not null default 0,
    lost double precision not null default 0,
    opens integer not null default 0,
    patience double precision not null,
    opened_at timestamptz,
    open_until timestamptz,
    probe text,
    partitions bigint[] not null default '{}',
    updated_at timestamptz not null default now()
);
create index breakers_of_organization on breakers (organization_id, updated_at);
create index breakers_open on breakers (open_until) where open_until is not null;

create table deletions (
    id text primary key,
    organization_id text not null references organizations (id) on delete cascade,
    namespace_id text not null,
    tenant text,
    documents bigint not null default 0,
    chunks bigint not null default 0,
    vectors bigint not null default 0,
    files bigint not null default 0,
    unread boolean not null default false,
    requested_at timestamptz not null default now(),
    confirmed_at timestamptz
);

create table deletion_stores (
    deletion_id text references deletions (id) on delete cascade,
    store text,
    removed bigint not null,
    read_back_at timestamptz,
    primary key (deletion_id, store)
);

create table namespaces (
    id text primary key,
    organization_id text not null references organizations (id) on delete cascade,
    name text not null,
    config jsonb not null default '{}',
    secrets bytea not null,
    dimensions integer,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    deleted_at timestamptz,
    epoch integer not null default 0,
    pending bytea,
    pending_run text,
    retired bytea,
    keyword_language text
);
create index namespaces_of_organization on namespaces (organization_id, created_at);

create table partitions (
    id serial primary key,
    namespace_id text not null references namespaces (id) on delete cascade,
    tenant text not null default '',
    chunks bigint not null default 0,
    terms bigint not null default 0,
    keyword_languages text[] not null default '{}',
    keyword_state text,
    answerability jsonb,
    answerability_epoch integer
);
create unique index partition_of_scope on partitions (namespace_id, tenant);

create table access_groups (
    partition_id integer references partitions (id) on delete cascade,
    id text,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (partition_id, id)
);

create table batches (
    id text primary key,
    partition_id integer not null references partitions (id) on delete cascade,
    source text not null,
    attempt integer not null default 1,
    fence integer not null default 0,
    lease_until timestamptz,
    flow_run_id text,
    created_at timestamptz not null default now(),
    dispatched_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    released boolean not null default false,
    at_work text,
    blame integer not null default 0,
    queue text not null default 'default',
    size integer not null default 0,
    looked_at timestamptz
);
create index batches_of_partition on batches (partition_id);
create index batches_open on batches (created_at) where finished_at is null;

create table connections (
    id text primary key,
    partition_id integer not null references partitions (id) on delete cascade,
    name text not null,
    connector text not null,
    status text not null default 'PENDING',
    status_reason text,
    client_redirect_url text,
    credentials bytea,
    account text,
    cursor jsonb,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    sync_minutes integer,
    listed_at timestamptz,
    permissions text not null default 'IGNORE',
    constraint connection_status check (status in ('PENDING', 'ACTIVE', 'FAILED', 'REVOKED'))
);
create index connections_of_partition on connections (partition_id, created_at, id);

create table schedules (
    id text primary key,
    partition_id integer not null references partitions (id) on delete cascade,
    job_id text not null,
    source text not null,
    config jsonb not null,
    urls text[],
    minutes integer,
    cron text,
    time_zone text not null default 'UTC',
    paused boolean not null default false,
    pause_pending boolean not null default false,
    reason text,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    constraint schedule_time check ((minutes is null) <> (cron is null))
);
create index schedules_of_partition on schedules (partition_id, created_at, id);

create table documents (
    id text primary key,
    partition_id integer not null references partitions (id) on delete cascade,
    job_id text not null,
    job_run_id text not null,
    source text not null,
    external_id text not null,
    document_type text not null,
    name text not null,
    metadata jsonb not null default '{}',
    status text not null default 'QUEUED',
    error text,
    connection_id text,
    active_generation bigint not null default 0,
    latest_generation bigint not null default 0,
    fingerprint bytea,
    raw_key text,
    parsed_key text,
    properties jsonb not null default '{}',
    embedding jsonb not null default '{}',
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    synced_at timestamptz,
    deleted_at timestamptz,
    archive_id text,
    changes jsonb not null default '[]',
    metadata_at timestamptz,
    accepted_bytes bigint,
    keyword_language text,
    access jsonb,
    access_reason text,
    access_limit jsonb,
    access_after bigint,
    inherits_access boolean not null default false,
    allowed text[] not null default '{@}',
    denied text[] not null default '{}',
    withholds_file boolean not null default false,
    hidden jsonb not null default '[]'
);
create unique index document_identity on documents (partition_id, source, external_id) where deleted_at is null;
create index documents_by_archive on documents (archive_id) where archive_id is not null;
create index documents_by_metadata on documents using gin (metadata jsonb_path_ops);
create index documents_by_words on documents using gin (document_words(partition_id, name, external_id));
create index documents_of_partition on documents (partition_id, created_at, id) where deleted_at is null;
create index documents_of_reader on documents using gin (allowed) where allowed <> '{@}';
create index documents_of_site on documents (document_site(partition_id, external_id)) where document_type = 'URL';
create index documents_of_unknown_access on documents (partition_id, created_at, id)
    where deleted_at is null and access_reason is not null;
create index documents_with_hidden on documents (partition_id, created_at, id) where deleted_at is null and hidden <> '[]';
create index documents_open on documents (partition_id) where allowed = '{@}' and deleted_at is null;

create table departures (
    document_id text references documents (id) on delete cascade,
    connection_id text references connections (id) on delete cascade,
    job_run_id text not null,
    held boolean not null default false,
    created_at timestamptz not null default now(),
    primary key (document_id, connection_id)
);
create index ix_departures_connection_id on departures (connection_id);

create table evaluations (
    id text primary key,
    partition_id integer not null references partitions (id) on delete cascade,
    name text not null,
    created_at timestamptz not null default now()
);
create index evaluations_of_partition on evaluations (partition_id, created_at, id);

create table evaluation_questions (
    evaluation_id text references evaluations (id) on delete cascade,
    number bigint generated always as identity,
    query text not null,
    relevant jsonb not null default '[]',
    filter jsonb,
    primary key (evaluation_id, number)
);

create table evaluation_runs (
    id text primary key,
    evaluation_id text not null references evaluations (id) on delete cascade,
    status text not null default 'QUEUED',
    settings jsonb not null default '[]',
    result jsonb,
    error text,
    attempt integer not null default 0,
    lease_until timestamptz,
    created_at timestamptz not null default now(),
    finished_at timestamptz,
    progress jsonb,
    constraint evaluation_run_status check (status in ('QUEUED', 'RUNNING', 'COMPLETED', 'FAILED'))
);
create index evaluation_runs_of_evaluation on evaluation_runs (evaluation_id, created_at, id);
create index evaluation_runs_open on evaluation_runs (created_at) where finished_at is null;

create table directory_resources (
    partition_id integer references partitions (id) on delete cascade,
    id text,
    kind text not null,
    name text not null,
    external_id text,
    active boolean not null,
    resource jsonb not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (partition_id, id),
    constraint directory_resource_kind check (kind in ('User', 'Group'))
);
create unique index directory_resource_of_name on directory_resources (partition_id, kind, lower(name));
create index directory_resources_of_member on directory_resources using gin (resource jsonb_path_ops);

create table group_members (
    partition_id integer,
    group_id text,
    member text,
    primary key (partition_id, group_id, member),
    foreign key (partition_id, group_id) references access_groups (partition_id, id) on delete cascade
);
create index groups_of_member on group_members (partition_id, member);

create table jobs (
    id text primary key,
    organization_id text not null references organizations (id) on delete cascade,
    partition_id integer not null references partitions (id) on delete cascade,
    source text not null,
    config jsonb not null default '{}',
    created_at timestamptz not null default now()
);
create index ix_jobs_partition_id on jobs (partition_id);

create table job_runs (
    id text primary key,
    number bigint generated always as identity unique,
    job_id text not null references jobs (id) on delete cascade,
    partition_id integer not null references partitions (id) on delete cascade,
    source text not null,
    status text not null default 'QUEUED',
    batch_id text references batches (id) on delete set null,
    cancel_requested boolean not null default false,
    progress jsonb not null default '{}',
    timings jsonb not null default '{}',
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    started_at timestamptz,
    finished_at timestamptz,
    to_discover boolean not null default false,
    discover_cursor text,
    blame integer not null default 0,
    request_id text,
    traceparent text,
    waits_for text,
    constraint job_run_status check (status in ('QUEUED', 'PRE_PROCESSING', 'PROCESSING', 'COMPLETED'))
);
create index ix_job_runs_batch_id on job_runs (batch_id);
create index ix_job_runs_job_id on job_runs (job_id);
create index job_runs_of_partition on job_runs (partition_id, number);
create index job_runs_unfinished on job_runs (partition_id, source, number) where finished_at is null;
create index job_runs_waiting on job_runs (partition_id, source, number)
    where batch_id is null and finished_at is null;

create table crawl_pages (
    job_run_id text references job_runs (id) on delete cascade,
    key text,
    position bigint generated always as identity,
    depth integer not null,
    done boolean not null default false,
    kept boolean not null default false,
    tries integer not null default 0,
    linked_from text not null default '',
    primary key (job_run_id, key)
);

create table inbox (
    job_run_id text references job_runs (id) on delete cascade,
    document_id text,
    content text not null,
    primary key (job_run_id, document_id)
);

create table oauth_states (
    hash bytea primary key,
    connection_id text not null references connections (id) on delete cascade,
    connector text not null,
    verifier bytea,
    expires_at timestamptz not null,
    used_at timestamptz
);
create index ix_oauth_states_connection_id on oauth_states (connection_id);
create index oauth_states_expiring on oauth_states (expires_at);

create table posting_blocks (
    partition_id integer,
    term text,
    block bigint generated always as identity,
    body bytea storage external not null,
    primary key (partition_id, term, block)
) with (toast_tuple_target=8160);

create table posting_changes (
    partition_id integer,
    change bigint generated always as identity,
    removed boolean not null,
    chunks bigint[] not null,
    primary key (partition_id, change)
);

create table posting_packs (
    partition_id serial primary key,
    base bigint not null,
    packed_at timestamptz
);

-- The index alone answers a search: it includes what is scored.
create table postings (
    partition_id integer,
    term text,
    chunk_id bigint,
    tf smallint not null,
    length integer not null,
    primary key (partition_id, term, chunk_id) include (tf, length)
);
create index postings_of_chunk on postings (chunk_id);

create table prefect_events (
    id bigint generated always as identity primary key,
    event_id uuid not null default gen_random_uuid(),
    type text not null,
    data jsonb not null default '{}',
    at timestamptz not null default now()
);

create table document_counts (
    partition_id integer references partitions (id) on delete cascade,
    part bigint generated always as identity,
    source text not null,
    status text not null,
    documents bigint not null,
    primary key (partition_id, part)
);

create table prefect_levers (
    id smallint primary key,
    levers jsonb not null,
    sources text[] not null,
    recorded_at timestamptz not null default now()
);

create table quota_changes (
    organization_id text,
    change bigint generated always as identity,
    tenant text not null,
    documents bigint not null,
    stored_bytes bigint not null,
    primary key (organization_id, change)
);

create unlogged table rate_windows (
    caller text primary key,
    minute bigint not null,
    requests integer not null
);

create table run_documents (
    job_run_id text references job_runs (id) on delete cascade,
    document_id text,
    position integer not null,
    generation bigint not null,
    status text not null default 'QUEUED',
    stage text not null default 'accepted',
    error text,
    name text not null,
    media_type text not null default '',
    raw_key text,
    raw_hash bytea,
    raw_size bigint,
    parsed_key text,
    fingerprint bytea,
    title text not null default '',
    pages bigint[] not null default '{}',
    properties jsonb not null default '{}',
    embedding jsonb not null default '{}',
    epoch integer not null default 0,
    made_from text,
    partition_id integer,
    blame integer not null default 0,
    access jsonb,
    primary key (job_run_id, document_id)
);
create index ix_run_documents_document_id on run_documents (document_id);

create table search_times (
    namespace_id text,
    tenant text,
    hour timestamptz,
    bucket integer,
    searches integer not null,
    primary key (namespace_id, tenant, hour, bucket)
);

create table weak_searches (
    partition_id integer references partitions (id) on delete cascade,
    query text,
    searches integer not null,
    best_score double precision,
    probability double precision not null,
    last_at timestamptz not null default now(),
    primary key (partition_id, query)
);

create table server_secrets (
    name text primary key,
    sealed bytea not null
);

create table sweeps (
    id bigint generated always as identity primary key,
    partition_id integer not null references partitions (id) on delete cascade,
    kind text not null,
    document_id text,
    generation bigint,
    file_key text,
    tries integer not null default 0,
    due_at timestamptz not null default now(),
    deletion_id text,
    removed jsonb not null default '{}'
);
create index sweeps_due on sweeps (due_at);
create index sweeps_of_deletion on sweeps (deletion_id) where deletion_id is not null;
create index sweeps_of_partition on sweeps (partition_id, due_at);

create table tenants (
    organization_id text references organizations (id) on delete cascade,
    id text,
    created_at timestamptz not null default now(),
    quotas jsonb not null default '{}',
    primary key (organization_id, id)
);

create table term_counts (
    partition_id integer,
    term text,
    part bigint generated always as identity,
    chunks integer not null,
    primary key (partition_id, term, part)
);

create table token_usage (
    organization_id text,
    day date,
    namespace_id text,
    tenant text,
    provider text,
    model text,
    tokens bigint not null,
    primary key (organization_id, day, namespace_id, tenant, provider, model)
);

create table uploaded_files (
    id text primary key,
    organization_id text not null references organizations on delete cascade,
    tenant text not null,
    namespace_id text,
    name text not null,
    media_type text not null,
    purpose text not null,
    size bigint not null,
    sha256 bytea not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null
);
create index uploads_of_organization on uploaded_files (organization_id);
create index uploads_by_expiry on uploaded_files (expires_at);

create table uploaded_pieces (
    file_id text references uploaded_files on delete cascade,
    position bigint,
    content bytea not null,
    primary key (file_id, position)
);
alter table uploaded_pieces alter column content set storage external;

create table vectors (
    partition_id integer,
    id text,
    document_id text not null,
    values halfvec not null,
    primary key (partition_id, id)
) with (toast_tuple_target=8160);

create table webhook_outbox (
    id bigint generated always as identity primary key,
    partition_id integer not null,
    type text not null,
    lane text,
    data jsonb not null default '{}',
    xact bigint not null default txid_current(),
    at timestamptz not null default clock_timestamp()
);

create table webhooks (
    id text primary key,
    organization_id text not null references organizations (id) on delete cascade,
    namespace_id text references namespaces (id) on delete cascade,
    tenant text,
    url text not null,
    events text[] not null,
    description text,
    status text not null default 'ACTIVE',
    status_reason text,
    secret bytea not null,
    previous bytea,
    previous_until timestamptz,
    sequence bigint not null default 0,
    failing boolean not null default false,
    alive_at timestamptz not null default now(),
    created_at timestamptz not null default now(),
    constraint webhook_status check (status in ('ACTIVE', 'DISABLED'))
);
create index webhooks_of_namespace on webhooks (namespace_id);
create index webhooks_of_organization on webhooks (organization_id, created_at, id);

create table webhook_deliveries (
    id text primary key,
    webhook_id text not null references webhooks (id) on delete cascade,
    event_id text not null,
    sequence bigint not null,
    type text not null,
    namespace_id text,
    lane text,
    body text not null,
    status text not null default 'PENDING',
    ordered boolean not null default true,
    attempts integer not null default 0,
    tries integer not null default 0,
    response_status integer,
    reason text,
    next_attempt_at timestamptz,
    give_up_at timestamptz not null,
    created_at timestamptz not null default now(),
    constraint webhook_delivery_status check (status in ('PENDING', 'DELIVERED', 'FAILED'))
);
create index webhook_deliveries_by_age on webhook_deliveries (created_at);
create index webhook_deliveries_due on webhook_deliveries (webhook_id, next_attempt_at, sequence)
    where status = 'PENDING';
create index webhook_deliveries_in_order on webhook_deliveries (webhook_id, lane, sequence)
    where status = 'PENDING' and ordered;
create unique index webhook_deliveries_of_webhook on webhook_deliveries (webhook_id, sequence);
