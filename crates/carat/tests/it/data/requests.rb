# frozen_string_literal: true

require_relative 'small_server'

# Answers every request and writes it to a file: method, target, body, and the headers that a replay may or may not send.
class RequestServer < SmallServer
  HEADERS = %w[accept cookie authorization x-tenant].freeze

  private

  def answer(method, target, headers, body)
    write([method, target, body, *HEADERS.filter_map { |name| "#{name}=#{headers[name]}" if headers[name] }])
    response =
      case target
      when %r{\A/missing} then reply(404, 'nothing here')
      when %r{\A/echo} then reply(500, "cookie #{headers['cookie']} authorization #{headers['authorization']}")
      else reply(200, 'ok')
      end
    method == 'HEAD' ? response[/\A.*?\r\n\r\n/m] : response
  end

  def write(parts)
    file = @env['REQUESTS']
    File.open(file, 'a') { |io| io.puts(parts.join(' ').squeeze(' ')) } if file
  end
end

RequestServer.new(ENV).run
