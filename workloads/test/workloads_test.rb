# frozen_string_literal: true

require 'json'
require 'tmpdir'
require 'minitest/autorun'
require 'tmpdir'
require 'booted'
require 'cable_client'
require 'system'

# Boots every workload on the system that SYSTEM names and checks one response.
class WorkloadsTest < Minitest::Test
  SYSTEM = System.new(ENV.fetch('SYSTEM', 'here'))
  PUMA = %w[puma -C puma.rb config.ru].freeze

  if SYSTEM.gems?
    def test_rails_hello_renders_its_string
      need 'rails', 'puma'
      boot('rails-hello', PUMA, ready: '/hello') do |server|
        assert_equal 'Hello from Rails', server.get('/hello').body
        assert_equal '404', server.get('/no-such-page').code
      end
    end

    def test_cable_echoes_and_broadcasts
      need 'action_cable', 'redis', 'puma'
      with_redis { |redis| boot('cable', PUMA, env: redis, ready: '/health') { |server| check_cable(server.port) } }
    end

    def test_a_replicator_job_is_processed_and_stored
      need 'sidekiq', 'active_record', 'sqlite3'
      Dir.mktmpdir do |folder|
        file = File.join(folder, 'replicas.sqlite3')
        with_replicator('SQLITE_FILE' => file) { assert_equal [1, 2, 3], rows_in_sqlite(file, 3) }
      end
    end

    def test_the_blog_shows_ten_posts_from_a_cluster_and_from_ten_boots
      need 'active_record', 'sqlite3', 'puma', 'action_view'
      [PUMA, ['./ten_boots']].each do |command|
        boot('blog', command, ready: '/') { |server| assert_equal 10, server.get('/').body.scan('<article>').size }
      end
    end

    def test_the_blog_answers_in_one_process_with_threads_and_from_workers_that_are_forked_again
      need 'active_record', 'sqlite3', 'puma', 'action_view'
      ways = [{ 'WORKERS' => '0', 'THREADS' => '4' }]
      # Puma 4 cannot fork workers again.
      ways << { 'WORKERS' => '2', 'FORK_WORKER' => '10' } unless SYSTEM.name == 'bullseye'
      ways.each do |env|
        boot('blog', PUMA, env: env, ready: '/') do |server|
          request_at_once(server, 60)
          assert_equal 10, server.get('/').body.scan('<article>').size, env.inspect
        end
      end
    end

    def test_every_instance_of_the_blog_serves_the_same_number_of_pages
      need 'active_record', 'sqlite3', 'puma', 'action_view'
      return assert_puma_is_refused if SYSTEM.name == 'sid'

      [PUMA, ['./ten_boots']].each do |command|
        Dir.mktmpdir do |folder|
          env = { 'SERVED' => File.join(folder, 'served'), 'INSTANCES' => '10', 'WORKERS' => '10' }
          boot('blog', command, env: env, ready: '/ready') do |server|
            request_at_once(server, 60)
            pages = JSON.parse(server.get('/served').body)
            assert_equal [10, 60], [pages.size, pages.sum]
            assert_operator pages.max - pages.min, :<=, 1, pages.inspect
          end
        end
      end
    end
  end

  # AnyCable is built on this machine, for this machine, and the roots have no PostgreSQL.
  if SYSTEM.here?
    # These roots are made by name only, because they take several minutes. So this is skipped even where all is required.
    %w[redmine-bookworm redmine-trixie].each do |root|
      define_method("test_#{root.tr('-', '_')}_shows_a_project_to_a_user_who_logs_in_under_a_preloaded_puma") do
        is_made = system(File.join(System::CHECKOUT, 'bin/roots'), '--check', root, out: File::NULL)
        skip "no root #{root}; run bin/roots #{root}" unless is_made
        with_redmine(root) { |server| check_redmine(server) }
      end
    end

    def test_replicator_jobs_are_rows_in_postgresql
      need 'sidekiq', 'active_record', 'pg'
      require 'pg'
      with_postgres do |database|
        with_replicator(database) do |source|
          stored = eventually(3) { rows_in(database) }
          stored.each { |number, rows| assert_equal JSON.parse(source.get("/#{number}").body).size.to_s, rows }
        end
      end
    end

    def test_the_same_channel_answers_on_anycable
      need 'action_cable', 'redis', 'puma'
      _, problem, build = Open3.capture3(File.join(SYSTEM.folder('cable'), 'anycable/build'))
      missing problem if build.exitstatus == 127 # no Go; Debian's package may be too old
      with_redis do |redis|
        boot('cable', ['anycable/run'], env: redis, ready: '/health') { |server| check_cable(server.port) }
      end
    end
  end

  def test_the_extend_script_counts_collections_in_every_mode
    reports = %w[bare include extend leak].to_h do |mode|
      [mode, JSON.parse(SYSTEM.capture('ruby', 'extend.rb', mode, '100000', workload: 'extend'))]
    end
    assert_operator reports['extend']['gc_runs'], :>, reports['include']['gc_runs']
    assert_operator reports['leak']['grown_bytes'], :>, 100_000 * 16
  end

  def test_the_toy_server_answers_with_every_set_of_parts
    ['', 'include', 'extend', 'extend,parse,journal,tally'].each do |parts|
      boot('extend', %w[ruby server.rb], env: { 'PARTS' => parts }, ready: '/') do |server|
        assert_equal 'hello', server.get('/').body, parts
      end
    end
  end

  def test_the_toy_server_extends_sockets_and_closes_each_after_its_response
    ['', 'include-socket', 'extend-socket'].each do |parts|
      boot('extend', %w[ruby server.rb], env: { 'PARTS' => parts, 'CLOSE' => '1' }, ready: '/') do |server|
        response = server.get('/')
        assert_equal %w[hello close], [response.body, response['connection']], parts
      end
    end
  end

  def test_a_worker_of_the_blog_collects_once_after_its_page
    script = <<~RUBY
      app = FullCollection.new(->(_) { [200, {}, []] })
      p(Array.new(3) do
        env = { 'rack.after_reply' => [] }
        before = GC.count
        app.call(env)
        env['rack.after_reply'].each(&:call)
        GC.count - before
      end)
    RUBY
    run = ['env', 'FULL_GC_AT=2', 'ruby', '-r./full_collection', '-e', script]
    assert_equal "[0, 1, 0]\n", SYSTEM.capture(*run, workload: 'blog')
  end

  def test_pinned_objects_keep_their_heap_pages_and_loose_ones_do_not
    loose, pinned = SYSTEM.capture('ruby', 'wedge.rb', workload: 'wedge').lines.map { |line| JSON.parse(line) }
    pages = ->(report) { report['pages_after'].to_f / report['pages_before'] }
    assert_operator pages[loose], :<, 0.7, loose.inspect
    assert_operator pages[pinned], :>, 0.9, pinned.inspect
  end

  def test_the_microbenchmarks_report_their_time
    lines = SYSTEM.capture('env', 'RUNS=1', 'ruby', 'bench.rb', workload: 'microbenchmarks').lines
    assert_equal %w[growarray plist shrinkarray], lines.map { |line| JSON.parse(line).fetch('program') }
  end

  def test_the_rounds_of_the_micro_benchmarks_run_in_one_process_and_in_a_forked_worker
    %w[0 1].each do |workers|
      assert_empty SYSTEM.capture('env', 'ROUNDS=1', "WORKERS=#{workers}", 'ruby', 'rounds.rb', workload: 'microbenchmarks')
    end
    refused = ['sh', '-c', 'ROUNDS=many ruby rounds.rb 2> /dev/null']
    assert_raises(RuntimeError) { SYSTEM.capture(*refused, workload: 'microbenchmarks') }
  end

  private

  # Requests the front page from several threads, each page over its own connection.
  def request_at_once(server, pages)
    wanted = Queue.new
    pages.times { wanted << '/' }
    wanted.close
    threads = Array.new(8) do
      Thread.new do
        while (path = wanted.pop)
          server.get(path)
        end
      end
    end
    threads.each(&:join)
  end

  def assert_puma_is_refused
    env = { 'SERVED' => File.join(Dir.tmpdir, 'not-written'), 'INSTANCES' => '1', 'WORKERS' => '1' }
    problem = assert_raises(RuntimeError) { boot('blog', PUMA, env: env, ready: '/ready') { flunk 'it started' } }
    assert_match(/Puma 8.* accepts connections while its thread is busy/, problem.message)
  end

  def need(*libraries)
    missing "not all of #{libraries.join(', ')} on #{SYSTEM.name}; run bin/setup" unless SYSTEM.libraries?(*libraries)
  end

  # Skips the test; with CARAT_REQUIRE_ALL, as in CI, fails it.
  def missing(reason)
    ENV['CARAT_REQUIRE_ALL'] ? flunk(reason) : skip(reason)
  end

  def boot(workload, command, **options, &block)
    Booted.with(SYSTEM.wrap(command), folder: SYSTEM.folder(workload), **options, &block)
  end

  def with_redis
    port = Booted.free_port
    command = ['redis-server', '--bind', '127.0.0.1', '--port', port.to_s, '--save', '']
    Booted.with(command, port: port) { yield({ 'REDIS_URL' => "redis://127.0.0.1:#{port}" }) }
  end

  # Yields the environment that names a private cluster, which listens on a socket and on no port.
  def with_postgres
    Dir.mktmpdir do |parent|
      folder = File.join(parent, 'postgres')
      ready = -> { PG::Connection.ping(host: folder) == PG::PQPING_OK }
      Booted.with(['./postgres', folder], folder: SYSTEM.folder('replicator'), ready: ready) do
        yield({ 'REPLICATOR_DATABASE_URL' => 'postgresql:///postgres', 'PGHOST' => folder, 'PGUSER' => 'replicator' })
      end
      refute_path_exists folder
    end
  end

  # Yields a Redmine in this root, with a copy of its database.
  def with_redmine(root)
    Dir.mktmpdir do |parent|
      folder = File.join(parent, 'postgres')
      ready = -> { File.socket?(File.join(folder, '.s.PGSQL.5432')) }
      Booted.with(['./database', 'serve', folder, root], folder: SYSTEM.folder('redmine'), ready: ready) do
        command = System.new(root).wrap(%w[puma -C puma.rb])
        env = { 'PGHOST' => folder, 'WORKERS' => '2', 'LANG' => 'C.UTF-8' }
        Booted.with(command, folder: SYSTEM.folder('redmine'), env: env, ready: '/login') { |server| yield server }
      end
      refute_path_exists folder
    end
  end

  def check_redmine(server)
    at = ->(path) { URI("http://127.0.0.1:#{server.port}#{path}") }
    form = server.get('/login')
    fields = { username: 'user3', password: 'carat-redmine',
               authenticity_token: form.body[/name="authenticity_token" value="([^"]+)"/, 1] }
    answer = Net::HTTP.post(at['/login'], URI.encode_www_form(fields), 'Cookie' => cookies(form))
    assert_equal '302', answer.code
    page = Net::HTTP.get_response(at['/projects/project-3/issues'], 'Cookie' => cookies(answer))
    assert_equal '200', page.code
    assert_includes page.body, 'user3'
    assert_equal 25, page.body.scan(%r{<td class="id"><a href="/issues/\d+">}).size
  end

  def cookies(response)
    response['set-cookie'][/\A[^;]+/]
  end

  # The stored jobs: the number of rows of each response, by the job's number.
  def rows_in(database)
    connection = PG.connect(host: database['PGHOST'], user: database['PGUSER'], dbname: 'postgres')
    connection.exec('SELECT number, rows FROM replicas WHERE length(body) > rows').values.to_h
  ensure
    connection&.close
  end

  # The numbers of the stored jobs, in their order, once there are so many.
  def rows_in_sqlite(file, count)
    query = 'puts SQLite3::Database.new(ARGV.first).execute("SELECT number FROM replicas WHERE rows > 0 ORDER BY number")'
    eventually(count) { SYSTEM.capture('ruby', '-rsqlite3', '-e', query, file, workload: 'replicator').split.map(&:to_i) }
  end

  # What the block returns once it has so many elements.
  def eventually(count)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + Booted::DEADLINE
    until (found = yield).size >= count
      flunk "#{found.size} of #{count}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      sleep 0.1
    end
    found
  end

  # Yields the source of a Sidekiq that has three jobs.
  def with_replicator(env)
    boot('replicator', %w[ruby source.rb]) do |source|
      with_redis do |redis|
        env = redis.merge(env, 'SOURCE_URL' => "http://127.0.0.1:#{source.port}")
        url = env.fetch('REDIS_URL')
        ready = -> { Open3.capture2('redis-cli', '-u', url, 'SCARD', 'processes').first.to_i == 1 }
        boot('replicator', ['./jobs'], env: env, ready: ready) do
          SYSTEM.capture('env', "REDIS_URL=#{url}", 'ruby', 'feed.rb', '3', workload: 'replicator')
          yield source
        end
      end
    end
  end

  def check_cable(port)
    one, two = Array.new(2) { CableClient.new(port).subscribe }
    one.perform('echo', 'to myself')
    assert_equal 'to myself', one.receive('echo')['payload']
    one.perform('broadcast', 'x' => 'y' * 200)
    [one, two].each { |client| assert_equal 'y' * 200, client.receive('broadcast')['payload']['x'] }
    assert_equal 'y' * 200, one.receive('broadcastResult')['payload']['x']
  ensure
    [one, two].compact.each(&:close)
  end
end
