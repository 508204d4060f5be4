# frozen_string_literal: true

require 'socket'

# A small HTTP server that misbehaves as its environment says.
class Server
  def initialize(env)
    @marks = env['MARKS']
    @env = env
    @served = 0
    @counting = Mutex.new
  end

  def run
    mark('boot', @env['PORT'])
    sleep(Float(@env.fetch('BOOT_SLEEP', '0')))
    daemon if @env['DAEMON']
    bomb(Integer(@env['BOMB'])) if @env['BOMB']
    @worker = fork { sleep } if @env['REPLACE_AFTER']
    trap('TERM') { @env['IGNORE_TERM'] ? mark('term') : exit!(0) }
    sleep if @env['NEVER_LISTEN']
    listener = TCPServer.new('127.0.0.1', Integer(@env.fetch('PORT')))
    loop { Thread.new(listener.accept) { |socket| serve(socket) } }
  end

  private

  # A grandchild that leaves family and session, as old daemons do.
  def daemon
    fork do
      Process.setsid
      fork { sleep }
    end
    mark('daemon')
  end

  # A process that keeps forking while others are killed, for a limited time.
  def bomb(count)
    fork do
      trap('TERM', 'IGNORE')
      count.times { fork { sleep } && sleep(0.01) }
      sleep
    end
  end

  # Another worker takes the place of one that is killed.
  def replace_worker
    Process.kill('KILL', @worker)
    Process.wait(@worker)
    @worker = fork { sleep }
  end

  # Joins a group whose memory is limited, and takes more than there is.
  def hog
    File.write(File.join(@env.fetch('CGROUP'), 'cgroup.procs'), Process.pid.to_s)
    held = []
    loop { held << ('x' * 1_000_000) }
  end

  def serve(socket)
    while (line = socket.gets)
      next unless line == "\r\n"

      answer(socket)
    end
  rescue SystemCallError
    socket.close
  end

  def answer(socket)
    # Together, so that the mark never falls behind the count.
    @counting.synchronize { mark('request', (@served += 1).to_s) }
    Process.kill('KILL', Process.pid) if @served >= Integer(@env.fetch('DIE_AFTER', '1000000'))
    replace_worker if @served == Integer(@env.fetch('REPLACE_AFTER', '0'))
    # From then on no request is answered, so that the load cannot end before the server does.
    hog if @env['HOG_AFTER'] && @served >= Integer(@env['HOG_AFTER'])
    sleep(Float(@env.fetch('ANSWER_SLEEP', '0')))
    wrong = @served > Integer(@env.fetch('WRONG_AFTER', '0'))
    status, body = wrong ? [@env.fetch('STATUS', '200 OK'), @env.fetch('BODY', 'ok')] : ['200 OK', 'ok']
    socket.write("HTTP/1.1 #{status}\r\nContent-Length: #{body.bytesize}\r\n\r\n#{body}")
  end

  def mark(name, text = '')
    File.write(File.join(@marks, name), text) if @marks
  end
end

Server.new(ENV).run
